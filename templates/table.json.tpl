@{once python/{package}/_table.json}
{"package": "@{table.package|name}", "namespace": "@{table.namespace|name}", "hash": "@{table.hash|name}",
"backends": {@{for b in table.backends sep ", "}"@{b.name|name}": {"devices": [@{for d in b.devices sep ", "}"@{d.name|name}"@{end}], "suffix": @{b.suffix|json_string}, "without": [@{for d in b.without sep ", "}"@{d.name|name}"@{end}]}@{end}},
"ops": {
@{for op in table.ops sep ",\n"}
"@{op.name|name}": {"hash": "@{op.hash|name}", "family": @{if op.family}"@{op.family|name}"@{else}null@{end},
"row": @{op.json|json},
"params": [@{for p in op.params sep ", "}{"name": "@{p.name|name}", "role": "@{p.role|name}", "dtype": @{p.dtype_text|json_string}, "shape": @{if p.is_scalar}null@{else}@{p.shape|json_string}@{end}, "optional": @{if p.optional}true@{else}false@{end}, "list": @{if p.is_list}"@{p.list_name|name}"@{else}null@{end}, "saved": @{if p.saved}true@{else}false@{end}, "items": [@{for i in p.items sep ", "}{"kind": "@{i.kind|name}"@{if i.dim_name}, "dim": "@{i.dim_name|name}"@{end}@{if i.axis_name}, "axis": "@{i.axis_name|name}"@{end}@{if i.keep_name}, "keep": "@{i.keep_name|name}"@{end}@{if i.is_value}, "python": @{i.python|json_string}@{end}@{if i.pack_names}, "packs": [@{for n in i.pack_names sep ", "}"@{n.name|name}"@{end}]@{end}}@{end}]@{if p.has_other}, "test": @{p.test_python|json_string}, "other": [@{for i in p.other sep ", "}{"kind": "@{i.kind|name}"@{if i.dim_name}, "dim": "@{i.dim_name|name}"@{end}@{if i.axis_name}, "axis": "@{i.axis_name|name}"@{end}@{if i.keep_name}, "keep": "@{i.keep_name|name}"@{end}@{if i.is_value}, "python": @{i.python|json_string}@{end}@{if i.pack_names}, "packs": [@{for n in i.pack_names sep ", "}"@{n.name|name}"@{end}]@{end}}@{end}]@{end}}@{end}],
"dims": [@{for d in op.dims sep ", "}{"name": "@{d.name|name}", "pack": @{if d.is_pack}true@{else}false@{end}, "list": @{if d.is_list}true@{else}false@{end}, "varies": @{if d.varies}true@{else}false@{end}, "value": @{if d.is_let}@{d.python|json_string}@{else}null@{end}}@{end}],
"wheres": [@{for w in op.wheres sep ", "}{"text": @{w.text|json_string}, "python": @{w.python|json_string}, "message": @{w.message|json_string}}@{end}],
"variants": {@{for v in op.variants sep ", "}"@{v.suffix|name}": {@{for p in v.params sep ", "}"@{p.name|name}": "@{p.dtype|name}"@{end}}@{end}},
"backends": {@{for b in op.backends sep ", "}"@{b.name|name}": [@{for v in b.variants sep ", "}"@{v.suffix|name}"@{end}]@{end}},
"kernels": [
@{for k in op.kernels sep ",\n"}
{"id": "@{k.id|name}", "backend": "@{k.backend_name|name}", "variants": [@{for v in k.variants sep ", "}"@{v.suffix|name}"@{end}], "layouts": {@{for p in k.tensors sep ", "}"@{p.name|name}": [@{for l in p.layouts sep ", "}"@{l.name|name}"@{end}]@{end}}, "layout": @{k.layout_text|json_string},
 "guards": [@{for g in k.guards sep ", "}{"text": @{g.text|json_string}, "python": @{g.python|json_string}}@{end}], "workspace": @{if k.workspace}{"text": @{k.workspace_text|json_string}, "python": @{k.workspace_python|json_string}}@{else}null@{end}, "arch": @{if k.arch}"@{k.arch|name}"@{else}null@{end}, "determinism": "@{k.determinism|name}", "src": @{k.src|json_string}, "libs": [@{for l in k.libs sep ", "}@{l.text|json_string}@{end}],
 "tolerance": {@{for t in k.tolerances sep ", "}"@{t.dtype|name}": [@{t.rtol|number}, @{t.atol|number}]@{end}}}
@{end}
],
"partial": @{if op.partial}true@{else}false@{end},
"test": {"accept": [@{for w in op.accept sep ", "}@{w.text|json_string}@{end}], "reject": [@{for w in op.reject sep ", "}@{w.text|json_string}@{end}], "tolerance": {@{for t in op.tolerances sep ", "}"@{t.dtype|name}": [@{t.rtol|number}, @{t.atol|number}]@{end}}},
"cost": {"flops": @{if op.flops}@{op.flops_python|json_string}@{else}null@{end}, "bytes": @{if op.bytes}@{op.bytes_python|json_string}@{else}null@{end}}}
@{end}

}}
