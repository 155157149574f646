import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../../../api/client.ts';
import { followRecord, nothingRead, type RecordState } from './follow-record.ts';

interface FollowedRecord extends RecordState {
  readonly since: number;
  reload(): void;
  /** Stops reading. */
  cancel(): void;
}

/** The events of the request, read again while it is running. */
export function useRecord(id: string): FollowedRecord {
  const [state, setState] = useState<RecordState>(nothingRead);
  const [begun, setBegun] = useState({ round: 0, since: performance.now() });
  const reading = useRef<AbortController | undefined>(undefined);
  useEffect(() => {
    const leaving = new AbortController();
    reading.current = leaving;
    setState(nothingRead);
    void followRecord(id, leaving.signal, setState);
    return () => leaving.abort();
  }, [id, begun.round]);
  const reload = () => setBegun({ round: begun.round + 1, since: performance.now() });
  const cancel = () => {
    reading.current?.abort();
    const error = new ApiError('You stopped reading the record.', { status: 0, code: 'unexpected' });
    setState((before) => ({ ...before, isLoading: false, error }));
  };
  return { ...state, since: begun.since, reload, cancel };
}
