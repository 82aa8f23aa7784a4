"""The table's dtypes in the words of torch, jax and numpy, which are the same."""

WORDS = {
    "bool": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",  # numpy has it from ml_dtypes
    "f32": "float32",
    "f64": "float64",
}
