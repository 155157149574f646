/** The bytes of a vector in the log: little-endian numbers of four bytes, on every machine. */

export function bytesOfVector(vector: Float32Array): Buffer {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * 4);
  return bytes;
}

/** A copy. @returns undefined for bytes that are no vector of this many dimensions */
export function vectorOfBytes(bytes: Uint8Array, dimensions: number): Float32Array | undefined {
  if (bytes.length !== dimensions * 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Float32Array.from({ length: dimensions }, (_, at) => view.getFloat32(at * 4, true));
}
