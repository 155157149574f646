/** The state of a change that is being sent. */
import { useRef, useState } from 'preact/hooks';
import { ApiError } from '../api/client.ts';

export interface SentChange {
  readonly error: ApiError | undefined;
  readonly isSending: boolean;
  /** Sends it, unless one is being sent. */
  send(change: () => Promise<unknown>): void;
  clear(): void;
}

/** @param onDone called after a change that succeeded */
export function useChange(onDone: () => void): SentChange {
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const isBusy = useRef(false);
  const run = async (change: () => Promise<unknown>) => {
    isBusy.current = true;
    setSending(true);
    setError(undefined);
    try {
      await change();
      isBusy.current = false;
      onDone();
    } catch (failure) {
      setError(asApiError(failure));
    } finally {
      isBusy.current = false;
      setSending(false);
    }
  };
  return {
    ...{ error, isSending },
    send(change) {
      if (!isBusy.current) void run(change);
    },
    clear: () => setError(undefined),
  };
}

function asApiError(failure: unknown): ApiError {
  if (failure instanceof ApiError) return failure;
  console.error(failure);
  const message = failure instanceof Error ? failure.message : String(failure);
  return new ApiError(message, { status: 0, code: 'unexpected' });
}
