/** What the calls of the stand-in share. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Users } from './access.ts';
import { Faults } from './faults.ts';
import { Store } from './store.ts';

export interface StandInState {
  readonly store: Store;
  readonly faults: Faults;
  readonly users: Users | undefined;
  readonly maxAppendBytes: number;
  readonly leaderPort: number | undefined;
  /** Cuts every connection. */
  readonly disconnect: () => void;
  /** Applies the delays of the faults. */
  readonly beforeAppend: () => Promise<void>;
  /** Resolves when events were appended, or `wake` was called. */
  readonly changed: () => Promise<void>;
  readonly wake: () => void;
}

export interface StandInStateOptions {
  /** Path of the file with the events; created when it does not exist. */
  readonly data: string;
  /** Requires one of these users in each call. The client sends them with TLS only. */
  readonly users?: Users | undefined;
  /** This node is not the leader; the leader has this port. */
  readonly leaderPort?: number | undefined;
  /** Default 1 MiB, as servers before 26 have it. */
  readonly maxAppendBytes?: number;
}

/** Appends that arrive in this time are reversed together. */
const reverseMs = 50;

export function createStandInState(options: StandInStateOptions, disconnect: () => void): StandInState {
  const faults = new Faults();
  const store = new Store(options.data);
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const resume of waiting) resume();
    waiting.clear();
  };
  store.onAppended(wake);
  let held: (() => void)[] = [];
  const release = () => {
    for (const resume of held.reverse()) resume();
    held = [];
  };
  return {
    store,
    faults,
    users: options.users,
    leaderPort: options.leaderPort,
    maxAppendBytes: options.maxAppendBytes ?? 1024 * 1024,
    disconnect,
    beforeAppend: async () => {
      // A time: the fault is a delay.
      if (faults.delayMs > 0) await delay(faults.delayMs);
      if (!faults.reverse) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      if (held.push(resolve) === 1) setTimeout(release, reverseMs);
      await promise;
    },
    changed: () => new Promise((resolve) => waiting.add(resolve)),
    wake,
  };
}
