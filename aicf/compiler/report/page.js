"use strict";
/* The page says everything without this; it adds ways to look at it. */
const all = (where, what) => Array.from(where.querySelectorAll(what));
const byId = (id) => document.getElementById(id);
const keyOf = (node) => node.getAttribute("href").slice(1);
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

all(document, ".tools, .filter").forEach((e) => { e.hidden = false; });

/* ---- the graph: zoom, move, select ---- */
all(document, ".viewer").forEach((viewer) => {
  const svg = viewer.querySelector("svg");
  const section = viewer.closest("section");
  const panel = section.querySelector(".selected");
  const natural = { width: svg.width.baseVal.value, height: svg.height.baseVal.value };
  const nodes = new Map(all(svg, ".node").map((n) => [keyOf(n), n]));
  const edges = all(svg, ".edges path");
  let zoom = 1;
  let on = null;

  function setZoom(wanted, x = viewer.clientWidth / 2, y = viewer.clientHeight / 2) {
    const next = clamp(wanted, 0.05, 4);
    const left = (viewer.scrollLeft + x) / zoom;
    const top = (viewer.scrollTop + y) / zoom;
    zoom = next;
    svg.setAttribute("width", natural.width * zoom);
    svg.setAttribute("height", natural.height * zoom);
    viewer.scrollTo({ left: left * zoom - x, top: top * zoom - y, behavior: "instant" });
  }
  const across = () => (viewer.clientWidth - 2) / natural.width;
  const whole = () => Math.min(across(), (viewer.clientHeight - 2) / natural.height);
  const actions = {
    in: () => setZoom(zoom * 1.25),
    out: () => setZoom(zoom / 1.25),
    fit: () => setZoom(Math.min(1, whole())),
    one: () => setZoom(1),
  };
  setZoom(clamp(across(), 0.6, 1), 0, 0);
  if (nodes.size) {
    const first = nodes.values().next().value.getBoundingClientRect();
    const frame = viewer.getBoundingClientRect();
    viewer.scrollLeft += first.left + first.width / 2 - frame.left - frame.width / 2;
  }
  all(section, "[data-zoom]").forEach((b) => b.addEventListener("click", () => actions[b.dataset.zoom]()));

  viewer.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) { return; }
    event.preventDefault();
    const box = viewer.getBoundingClientRect();
    setZoom(zoom * Math.exp(-event.deltaY * 0.002), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  let grip = null;
  viewer.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) {
      grip = { x: event.clientX, y: event.clientY, left: viewer.scrollLeft, top: viewer.scrollTop, moved: false };
    }
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip) { return; }
    const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
    if (!grip.moved && Math.hypot(dx, dy) < 5) { return; }
    grip.moved = true;
    viewer.classList.add("moving");
    viewer.scrollTo({ left: grip.left - dx, top: grip.top - dy, behavior: "instant" });
  });
  window.addEventListener("pointerup", () => {
    const moved = grip && grip.moved;
    grip = null;
    viewer.classList.remove("moving");
    if (moved) { viewer.addEventListener("click", (e) => { e.preventDefault(); e.stopPropagation(); }, { capture: true, once: true }); }
    if (moved) { setTimeout(() => viewer.dispatchEvent(new Event("click")), 0); }
  });
  svg.addEventListener("dragstart", (event) => event.preventDefault());

  function select(key) {
    const node = nodes.get(key);
    all(svg, ".on, .near").forEach((e) => e.classList.remove("on", "near"));
    on = node ? key : null;
    svg.classList.toggle("chosen", Boolean(node));
    panel.hidden = !node;
    if (!node) { return; }
    node.classList.add("on");
    for (const e of edges) {
      const other = e.dataset.of === key ? e.dataset.to : e.dataset.to === key ? e.dataset.of : null;
      if (other) { e.classList.add("on"); nodes.get(other).classList.add("near"); }
    }
    show(node);
    reveal(node);
  }
  function reveal(node) {
    const [box, frame] = [node.getBoundingClientRect(), viewer.getBoundingClientRect()];
    const far = (a, b, low, high) => (a < low + 30 || b > high - 30 ? (a + b - low - high) / 2 : 0);
    viewer.scrollBy({ left: far(box.left, box.right, frame.left, frame.right), top: far(box.top, box.bottom, frame.top, frame.bottom), behavior: "instant" });
  }
  /* What the table says of it, and where its edges lead. */
  function show(node) {
    const list = document.createElement("dl");
    const add = (term, ...what) => {
      const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
      dt.textContent = term;
      dd.append(...what);
      list.append(dt, dd);
    };
    const row = byId(keyOf(node));
    if (row && row.matches("tr")) {
      const heads = row.closest("table").tHead.rows[0].cells;
      Array.from(row.cells).forEach((cell, i) => {
        if (cell.textContent.trim()) { add(heads[i].textContent, ...Array.from(cell.cloneNode(true).childNodes)); }
      });
    } else {
      add("", node.getAttribute("aria-label"));
    }
    const links = (keys) => keys.flatMap((key, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = nodes.get(key).querySelector(".name").firstChild.textContent + " " + key.replace(/^.*?(\d+)$/, "$1");
      button.addEventListener("click", () => select(key));
      return i ? [" ", button] : [button];
    });
    const before = edges.filter((e) => e.dataset.to === on).map((e) => e.dataset.of);
    const after = edges.filter((e) => e.dataset.of === on).map((e) => e.dataset.to);
    if (before.length) { add("Reads", ...links(before)); }
    if (after.length) { add("Read by", ...links(after)); }
    panel.replaceChildren(list);
  }
  svg.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (event.ctrlKey || event.metaKey || event.shiftKey) { return; }
    if (node) {
      event.preventDefault();
      viewer.focus({ preventScroll: true });
    }
    select(node ? keyOf(node) : null);
  });
  svg.addEventListener("dblclick", (event) => {
    const node = event.target.closest(".node");
    if (node) { location.hash = node.getAttribute("href"); }
  });

  /* Along an edge; sideways to the next box of the same height. */
  function step(direction) {
    const middle = (key) => { const b = nodes.get(key).getBoundingClientRect(); return [b.left + b.width / 2, b.top]; };
    const [x, y] = middle(on);
    let near;
    if (direction === "ArrowUp" || direction === "ArrowDown") {
      const [from, to] = direction === "ArrowUp" ? ["to", "of"] : ["of", "to"];
      near = edges.filter((e) => e.dataset[from] === on).map((e) => e.dataset[to]);
    } else {
      const sign = direction === "ArrowLeft" ? -1 : 1;
      near = Array.from(nodes.keys()).filter((k) => k !== on && (middle(k)[0] - x) * sign > 0 && Math.abs(middle(k)[1] - y) < 40 * zoom);
    }
    near.sort((a, b) => Math.abs(middle(a)[0] - x) - Math.abs(middle(b)[0] - x));
    if (near.length) { select(near[0]); }
  }
  viewer.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    const keys = { "+": "in", "=": "in", "-": "out", "0": "fit", "1": "one" };
    if (keys[event.key]) {
      actions[keys[event.key]]();
    } else if (event.key === "Escape") {
      select(null);
    } else if (event.key === "Enter") {
      if (!on) { select(nodes.keys().next().value); } else { location.hash = nodes.get(on).getAttribute("href"); }
    } else if (event.key.startsWith("Arrow") && on) {
      step(event.key);
    } else {
      return;
    }
    event.preventDefault();
  });
});

/* ---- tables: filter and sort ---- */
all(document, "[data-filter]").forEach((input) => {
  const rows = all(byId(input.dataset.filter), "tbody tr");
  const found = input.closest(".filter").querySelector(".found");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((w) => texts[i].includes(w));
      count += row.hidden ? 0 : 1;
    });
    found.textContent = words.length ? count + " of " + rows.length : "";
  });
});
all(document, "th[data-sort]").forEach((head) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  const body = head.closest("table").tBodies[0];
  const place = head.cellIndex;
  const value = (row) => row.cells[place].dataset.value || row.cells[place].textContent.trim();
  button.addEventListener("click", () => {
    const falling = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && place > 0 && head.dataset.sort === "n");
    all(head.parentNode, "[aria-sort]").forEach((h) => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const rows = Array.from(body.rows);
    rows.sort((a, b) => (head.dataset.sort === "n" ? value(a) - value(b) : value(a).localeCompare(value(b))));
    body.append(...(falling ? rows.reverse() : rows));
  });
});

/* ---- what opens and closes ---- */
all(document, "[data-open], [data-close]").forEach((button) => button.addEventListener("click", () => {
  const group = button.dataset.open || button.dataset.close;
  all(document, "details").filter((d) => d.dataset.group === group).forEach((d) => { d.open = Boolean(button.dataset.open); });
}));
function openTarget() {
  let name = "";
  try { name = decodeURIComponent(location.hash.slice(1)); } catch { return; }
  const target = name && byId(name);
  if (!target) { return; }
  let outer = target.closest("details");
  while (outer) {
    outer.open = true;
    outer = outer.parentElement.closest("details");
  }
  if (target.hidden) { target.hidden = false; }
  target.scrollIntoView({ block: target.matches("h2, h1") ? "start" : "center" });
}
window.addEventListener("hashchange", openTarget);
openTarget();
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = all(document, "details:not([open])");
  closed.forEach((d) => { d.open = true; });
});
window.addEventListener("afterprint", () => closed.forEach((d) => { d.open = false; }));

/* ---- the timeline's order ---- */
all(document, ".waterfall").forEach((list) => {
  const buttons = all(list.closest("section"), "[data-order]");
  buttons.forEach((button) => button.addEventListener("click", () => {
    const isSorted = button.dataset.order === "time";
    const items = Array.from(list.children);
    items.sort((a, b) => (isSorted ? b.dataset.value - a.dataset.value : a.dataset.n - b.dataset.n));
    list.classList.toggle("sorted", isSorted);
    list.append(...items);
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
  }));
});

/* ---- which section is read, and a key for the filter ---- */
if ("IntersectionObserver" in window) {
  const links = new Map(all(document, ".sections a").map((a) => [a.getAttribute("href").slice(1), a]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    entries.forEach((e) => (e.isIntersecting ? seen.add(e.target) : seen.delete(e.target)));
    const first = all(document, "main > section").find((s) => seen.has(s));
    links.forEach((a) => a.removeAttribute("aria-current"));
    const link = first && links.get(first.getAttribute("aria-labelledby"));
    if (link) { link.setAttribute("aria-current", "true"); }
  }, { rootMargin: "-25% 0px -60% 0px" });
  all(document, "main > section").forEach((s) => observer.observe(s));
}
all(document, ".sections").forEach((nav) => nav.addEventListener("focusin", (event) => {
  event.target.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
}));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input") && !event.ctrlKey && !event.metaKey) {
    const input = document.querySelector("[data-filter]");
    if (input) {
      event.preventDefault();
      input.focus();
    }
  }
});
