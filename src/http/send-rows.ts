/** Long lists, sent in pieces: memory stays bounded, and other requests are served in between. */
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';

const PIECE_CHARACTERS = 64 * 1024;

/**
 * A JSON array of the rows, which are read one by one at the client's pace.
 * @param around the text before and after the array, when it is a member of an object
 */
export function sendRows(
  reply: FastifyReply,
  rows: Iterable<object> | AsyncIterable<object>,
  around = ['', ''],
): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(Readable.from(pieces(rows, around), { objectMode: false }));
}

async function* pieces(
  rows: Iterable<object> | AsyncIterable<object>,
  [before = '', behind = '']: readonly string[],
): AsyncGenerator<string> {
  let piece = `${before}[`;
  let separator = '';
  for await (const row of rows) {
    piece += separator + JSON.stringify(row);
    separator = ',';
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
    await setImmediate();
  }
  yield `${piece}]${behind}`;
}
