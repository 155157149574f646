/** Writes a multipart form (RFC 7578, names escaped as in WHATWG's HTML). Pure. */

export interface PartHead {
  readonly name: string;
  readonly filename?: string | undefined;
  readonly contentType?: string | undefined;
}

const LINE = '\r\n';

/** The bytes before the content of a part. */
export function partHead(boundary: string, { name, filename, contentType }: PartHead): Buffer {
  const named = `; name="${escaped(name)}"`;
  const file = filename === undefined ? '' : `; filename="${escaped(filename)}"`;
  const type = contentType === undefined ? '' : `content-type: ${contentType}${LINE}`;
  return Buffer.from(`--${boundary}${LINE}content-disposition: form-data${named}${file}${LINE}${type}${LINE}`);
}

/** The bytes after the content of a part. */
export const PART_END = Buffer.from(LINE);

/** The bytes after the last part. */
export function formEnd(boundary: string): Buffer {
  return Buffer.from(`--${boundary}--${LINE}`);
}

function escaped(text: string): string {
  return text.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22');
}
