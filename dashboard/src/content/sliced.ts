/**
 * Long work in slices: a generator that yields often, so that a page can paint and react in between. A body of 5 MB must
 * not block a page for more than 50 ms.
 */
export type Sliced<T> = Generator<void, T, void>;

export interface SliceOptions {
  /** Milliseconds of work before the page gets a turn. */
  readonly sliceMs?: number;
  readonly signal?: AbortSignal;
  /** Resolves in a later task. */
  readonly pause?: () => Promise<void>;
  readonly now?: () => number;
}

/** Runs the whole work at once: for tests and for small inputs. */
export function runNow<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/**
 * Runs the work in slices of at most `sliceMs`, as far as the work yields often enough.
 * @throws the reason of `signal` when it is aborted between two slices
 */
export async function runSliced<T>(work: Sliced<T>, options: SliceOptions = {}): Promise<T> {
  const { sliceMs = 12, signal, pause = nextTask, now = () => performance.now() } = options;
  for (;;) {
    signal?.throwIfAborted();
    const end = now() + sliceMs;
    do {
      const step = work.next();
      if (step.done) return step.value;
    } while (now() < end);
    await pause();
  }
}

function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
