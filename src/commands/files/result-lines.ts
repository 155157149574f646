/** The lines of a batch's result files, each converted for the client, no faster than the client reads. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import type { Provider } from '../../providers/provider.ts';
import { type FileQuestion, type ResultFile, readLines } from '../provider-objects/batch-files.ts';
import { files } from '../provider-objects/tracked.ts';

/**
 * The first line is read before this resolves, so that a refusal still has its own HTTP status.
 * @param turn undefined for a line that the client does not get
 * @param rest the lines after all files are read
 * @throws Refusal
 */
export async function resultLines<Line extends object>(
  made: readonly ResultFile[],
  turn: (line: unknown) => Line | undefined,
  provider: Provider,
  question: FileQuestion,
  rest: () => Iterable<Line> = () => [],
): Promise<AsyncIterable<Line>> {
  const { signal } = question;
  const lines = new PassThrough({ objectMode: true, highWaterMark: 64 });
  const write = (line: Line | undefined): void => {
    if (line !== undefined) lines.write(line);
  };
  const room = () => (lines.writableNeedDrain ? once(lines, 'drain', { signal }) : undefined);
  const read = async (): Promise<void> => {
    for (const { path, id } of made) {
      const exists = await readLines(provider, path, question, (line) => write(turn(line)), room);
      if (!exists) throw files.notFound(id ?? path);
    }
    for (const line of rest()) {
      write(line);
      await room();
    }
    lines.end();
  };
  read().catch((error: Error) => lines.destroy(error));
  return opened<Line>(lines);
}

/** The values of the source, after the first one was read. @throws the errors of the source before that */
async function opened<Value>(source: AsyncIterable<Value>): Promise<AsyncIterable<Value>> {
  const values = source[Symbol.asyncIterator]();
  const first = await values.next();
  return (async function* () {
    try {
      for (let next = first; next.done !== true; next = await values.next()) yield next.value;
    } finally {
      await values.return?.();
    }
  })();
}
