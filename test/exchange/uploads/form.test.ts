import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formEnd, formParts, PART_END, partHead } from '../../../src/commands/exchange/dialects/forward/form.ts';
import { countOf } from '../../support/seed.ts';

const boundary = 'form-1';
const contentType = `multipart/form-data; boundary=${boundary}`;

// Names are written with escapes, as browsers do, and the parser does not undo those.
const name = fc.stringMatching(/^[A-Za-z0-9 _.[\]é-]{1,20}$/).filter((text) => text.trim() === text);
const field = fc.record({ kind: fc.constant('field' as const), name, value: fc.string({ unit: 'binary' }) });
const file = fc.record({
  kind: fc.constant('file' as const),
  name,
  filename: name,
  contentType: fc.constantFrom('audio/wav', 'application/octet-stream', 'text/plain'),
  bytes: fc.uint8Array({ maxLength: 3000 }),
});
const forms = fc.array(fc.oneof(field, file), { maxLength: 6 });
const cuts = fc.array(fc.nat(4000), { maxLength: 8 });

type Part = { name: string; value?: string; filename?: string; contentType?: string; bytes?: Buffer };

function written(parts: readonly Part[]): Buffer {
  const pieces = parts.flatMap((part) => [
    partHead(boundary, part),
    part.bytes ?? Buffer.from(part.value ?? ''),
    PART_END,
  ]);
  return Buffer.concat([...pieces, formEnd(boundary)]);
}

async function* cut(bytes: Buffer, places: readonly number[]): AsyncGenerator<Buffer> {
  let from = 0;
  for (const place of [...places].sort((a, b) => a - b)) {
    if (place <= from || place >= bytes.length) continue;
    yield bytes.subarray(from, place);
    from = place;
  }
  yield bytes.subarray(from);
}

async function read(pieces: AsyncIterable<Buffer>, limit = 1_000_000): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of formParts(pieces, contentType, limit)) {
    if (part.kind === 'field') parts.push({ name: part.name, value: part.value });
    else {
      const { name, filename, contentType } = part;
      parts.push({
        name,
        filename: filename ?? '',
        contentType,
        bytes: Buffer.concat(await Array.fromAsync(part.bytes)),
      });
    }
  }
  return parts;
}

describe('a form', () => {
  it('is read unchanged, however its bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(forms, cuts, async (form, places) => {
        const parts: Part[] = form.map(({ kind: _kind, ...part }) =>
          'bytes' in part ? { ...part, bytes: Buffer.from(part.bytes) } : part,
        );
        // Text arrives as UTF-8, which cannot encode half a surrogate pair.
        const expected = parts.map((part) =>
          part.value === undefined ? part : { ...part, value: part.value.toWellFormed() },
        );
        expect(await read(cut(written(parts), places))).toEqual(expected);
      }),
      { numRuns: countOf(50, 200) },
    );
  });

  it('that breaks off anywhere is refused, and never treated as whole', async () => {
    const parts = [
      { name: 'model', value: 'm' },
      { name: 'file', filename: 'a', contentType: 'audio/wav', bytes: Buffer.alloc(500, 7) },
    ];
    const whole = written(parts);
    for (let length = 0; length < whole.length - 4; length += 7) {
      await expect(read(cut(whole.subarray(0, length), [])), `${length} bytes`).rejects.toMatchObject({
        status: 400,
        code: 'invalid_form',
      });
    }
  });

  it('is bounded in size, in parts, and in the length of a field', async () => {
    const many = Array.from({ length: 1001 }, (_, at) => ({ name: `n${at}`, value: 'x' }));
    const long = [{ name: 'prompt', value: 'x'.repeat(1024 * 1024 + 1) }];
    const big = [{ name: 'file', filename: 'a', contentType: 'audio/wav', bytes: Buffer.alloc(5000) }];
    await expect(read(cut(written(many), []))).rejects.toMatchObject({ code: 'invalid_form' });
    await expect(read(cut(written(long), []), 9_000_000)).rejects.toMatchObject({ code: 'invalid_form' });
    await expect(read(cut(written(big), [1000, 2000]), 4000)).rejects.toMatchObject({ code: 'request_too_large' });
  });

  it('is read no faster than its files are', async () => {
    let given = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      yield partHead(boundary, { name: 'file', filename: 'a', contentType: 'audio/wav' });
      for (;;) {
        given += 1;
        yield Buffer.alloc(64 * 1024);
      }
    }
    const parts = formParts(endless(), contentType, Number.POSITIVE_INFINITY);
    const first = await parts.next();
    if (first.done === true || first.value.kind !== 'file') return expect.unreachable('the file comes first');
    const bytes = first.value.bytes[Symbol.asyncIterator]();
    await bytes.next();
    const before = given;
    await new Promise((resolve) => setImmediate(resolve));
    expect(given - before).toBeLessThan(4);
    await parts.return(undefined);
  });
});
