/**
 * Answers the requests of the gateway's thread, on a thread that archives. Uses synchronous calls only: the thread pool
 * belongs to the gateway's requests. Loads neither zod nor the catalogue, which would take more memory than all else.
 */
import type { MessagePort } from 'node:worker_threads';
import { archiveSegment, paceOf } from './archive-segment.ts';
import {
  failureOf,
  type ThreadAnswer,
  type ThreadRequest,
  type ThreadSettings,
  threadDisk,
} from './thread-messages.ts';

export function answerRequests(port: MessagePort, { dir, mark, idle }: ThreadSettings): void {
  const log = { disk: threadDisk, dir, mark };
  /** By the ids of the running requests. */
  const stops = new Map<number, AbortController>();
  const isIdle = () => Atomics.load(idle, 0) === 1;
  const answer = (message: ThreadAnswer) => port.postMessage(message);

  port.on('message', (request: ThreadRequest) => {
    if (request.kind === 'stop') stops.get(request.id)?.abort();
    else void archive(request);
  });
  answer({ kind: 'ready' });

  async function archive({ id, task, effort }: Extract<ThreadRequest, { kind: 'archive' }>): Promise<void> {
    const stop = new AbortController();
    stops.set(id, stop);
    try {
      const categories = await archiveSegment(log, task, paceOf(effort, isIdle, stop.signal));
      answer({ kind: 'archived', id, categories });
    } catch (error) {
      answer({ kind: 'failed', id, failure: failureOf(error) });
    } finally {
      stops.delete(id);
    }
  }
}
