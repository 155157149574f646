/**
 * kafkajs 2.2.4 plans a check of its queue of requests after every answer, also when the queue is empty. Its time is then
 * negative, so that each connection wakes up every millisecond from then on, and Node 24 prints TimeoutNegativeWarning. With
 * requests in the queue the time is positive.
 */
import { createRequire } from 'node:module';

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const load = createRequire(import.meta.url);

/** Plans checks only for queues that have requests, in this process. Called once, by `kafkajs.ts`. */
export function planNoEmptyChecks(): void {
  // Not part of the interface of kafkajs, whose version is pinned.
  const { prototype } = load('kafkajs/src/network/requestQueue/index.js') as { prototype: RequestQueue };
  const plan = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.pending.length > 0) plan.call(this);
  };
}
