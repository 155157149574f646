/** The script of a thread that finds streams. Loads neither zod nor the catalogue. */
import { parentPort, workerData } from 'node:worker_threads';
import {
  type FinderAnswer,
  type FinderRequest,
  type FinderSettings,
  failureOf,
  threadDisk,
} from '../archive/thread-messages.ts';
import { LocalStreamFinder } from './stream-finder.ts';

const { dir, mark }: FinderSettings = workerData;
const finder = new LocalStreamFinder({ disk: threadDisk, dir, mark });

async function answer(request: FinderRequest): Promise<FinderAnswer> {
  const { id } = request;
  try {
    if (request.kind === 'last') {
      return { kind: 'last', id, found: await finder.lastRevisions(request.streams, request.places) };
    }
    if (request.kind === 'parts') {
      return { kind: 'parts', id, found: await finder.parts(request.stream, request.places) };
    }
    await finder.releaseIndex();
    return { kind: 'released', id };
  } catch (error) {
    return { kind: 'failed', id, failure: failureOf(error) };
  }
}

parentPort?.on('message', async (request: FinderRequest) => parentPort?.postMessage(await answer(request)));
