import type { ComponentChildren } from 'preact';
import type { Loaded } from '../../api/use-answer.ts';
import { ErrorPanel, Pending } from '../../ui/states.tsx';

interface LoadedViewProps<Data> {
  readonly loaded: Loaded<Data>;
  readonly children: (data: NonNullable<Data>) => ComponentChildren;
  /** Shown when there is nothing to load. */
  readonly nothing: ComponentChildren;
}

/** Data, or what is in its place. */
export function LoadedView<Data>({ loaded, children, nothing }: LoadedViewProps<Data>) {
  const { data, error, isLoading, since, reload, cancel } = loaded;
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data !== undefined && data !== null) return <>{children(data)}</>;
  if (isLoading) return <Pending since={since} onCancel={cancel} />;
  return <>{nothing}</>;
}
