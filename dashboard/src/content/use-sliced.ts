/** Sliced work as the state of a component. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { runSliced, type Sliced } from './sliced.ts';

export type SlicedState<T> =
  | { readonly state: 'working'; readonly since: number }
  | { readonly state: 'done'; readonly value: T }
  | { readonly state: 'failed'; readonly message: string };

/** Work that ends within this time is done before the first paint. */
const FIRST_SLICE_MS = 8;

/** Begins again when one of `inputs` changes; what was begun before is dropped. */
export function useSliced<T>(begin: () => Sliced<T>, inputs: readonly unknown[]): SlicedState<T> {
  const started = useMemo(() => firstSlice(begin()), inputs);
  const [later, setLater] = useState<{ readonly of: unknown; readonly state: SlicedState<T> }>();
  useEffect(() => {
    if (started.work === undefined) return undefined;
    const abort = new AbortController();
    runSliced(started.work, { signal: abort.signal }).then(
      (value) => setLater({ of: started, state: { state: 'done', value } }),
      (error: unknown) => {
        if (!abort.signal.aborted) setLater({ of: started, state: { state: 'failed', message: String(error) } });
      },
    );
    return () => abort.abort();
  }, [started]);
  return later?.of === started ? later.state : started.state;
}

function firstSlice<T>(work: Sliced<T>): { readonly state: SlicedState<T>; readonly work: Sliced<T> | undefined } {
  const since = performance.now();
  try {
    do {
      const step = work.next();
      if (step.done) return { state: { state: 'done', value: step.value }, work: undefined };
    } while (performance.now() - since < FIRST_SLICE_MS);
  } catch (error) {
    return { state: { state: 'failed', message: String(error) }, work: undefined };
  }
  return { state: { state: 'working', since }, work };
}
