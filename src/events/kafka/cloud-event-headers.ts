/**
 * The headers of the binary mode of CloudEvents 1.0 ("Kafka Protocol Binding for CloudEvents", 3.2) for an append with one
 * event, so that other programs can select records without reading their values. The value is the append, not the data of
 * the event; `content-type` says so.
 */
import { recordId, recordTime, recordType } from '../embedded/record-layout.ts';
import { isoTime } from '../event-json.ts';
import type { SequencedAppend } from '../replicated/engine.ts';

const maxSubjectBytes = 512;
/** The last time that a `Date` can have. */
const maxTime = 8.64e15;

/**
 * @returns none for an append with another number of events, with a longer stream name than 512 bytes, or with a time that
 *   has no text
 */
export function cloudEventHeaders({ writes, records }: SequencedAppend, source: string): Record<string, string> {
  const [write, ...further] = writes.filter(({ count }) => count > 0);
  if (write?.count !== 1 || further.length > 0 || Buffer.byteLength(write.stream) > maxSubjectBytes) return {};
  const at = recordTime(records, 0);
  if (!(Math.abs(at) < maxTime)) return {};
  return {
    ce_specversion: '1.0',
    ce_id: recordId(records, 0),
    ce_source: source,
    ce_type: recordType(records, 0),
    ce_time: isoTime(at),
    ce_subject: write.stream,
    'content-type': 'application/vnd.chancery.append',
  };
}
