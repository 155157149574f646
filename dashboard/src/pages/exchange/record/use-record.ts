import { useEffect, useState } from 'preact/hooks';
import { followRecord, nothingRead, type RecordState } from './follow-record.ts';

/** The events of the request, read again while it is running. */
export function useRecord(id: string): RecordState & { readonly since: number; readonly reload: () => void } {
  const [state, setState] = useState<RecordState>(nothingRead);
  const [begun, setBegun] = useState({ round: 0, since: performance.now() });
  useEffect(() => {
    const leaving = new AbortController();
    setState(nothingRead);
    void followRecord(id, leaving.signal, setState);
    return () => leaving.abort();
  }, [id, begun.round]);
  const reload = () => setBegun({ round: begun.round + 1, since: performance.now() });
  return { ...state, since: begun.since, reload };
}
