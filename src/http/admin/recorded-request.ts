/** One request with its bodies, as the admin API shows them: JSON as JSON, and the answer as the client received it. */
import { type ReplayDependencies, replayAnswer } from '../../commands/exchange/record/replay-answer.ts';
import { idOf, type StreamName } from '../../events/event.ts';
import { parseExactly } from '../../json/exact-json.ts';
import type { RequestUsage } from '../../projections/analytics/audit-queries.ts';
import type { ExchangeRow } from '../../projections/analytics/exchange-row.ts';
import {
  FirstBytes,
  MOST_BODY_BYTES,
  type RequestInLog,
  requestInLog,
} from '../../projections/analytics/request-in-log.ts';
import type { VerdictRow } from '../../projections/verdicts.ts';
import type { RecordedContent } from './audit-entry.ts';

export interface RecordedRequest extends RecordedContent {
  readonly row: ExchangeRow;
  readonly usage: RequestUsage | undefined;
  readonly verdicts: readonly VerdictRow[];
  /** Of the returned part of its bodies. */
  readonly bodyBytes: number;
}

const MOST_ERROR_BYTES = 64 * 1024;

/** Undefined for an unknown request. */
export async function recordedRequest(
  stream: StreamName,
  deps: ReplayDependencies,
): Promise<RecordedRequest | undefined> {
  const found = await requestInLog(stream, deps.log);
  if (found === undefined) return undefined;
  const { row, usage, headers, body, cut, failures, responseBody, delivered, verdicts, revisions } = found;
  const requestBodyTooBig = isTooBig(body);
  const answer = delivered ?? (row.outcome === 'in_progress' ? responseBody : await answerAgain(stream, deps, found));
  const bodies = [body, ...revisions].filter((one) => !isTooBig(one));
  return {
    row,
    usage,
    verdicts,
    bodyBytes:
      answer.bytes +
      (delivered === undefined ? 0 : responseBody.bytes) +
      bodies.reduce((sum, one) => sum + (one?.length ?? 0), 0),
    requestHeaders: headers,
    requestBody: body === undefined || body.length === 0 || requestBodyTooBig ? undefined : readable(body),
    requestBodyTooBig,
    requestBodyCut: cut,
    responseBody: answer.bytes === 0 ? undefined : readable(answer.joined()),
    responseBodyTooBig: answer.tooMany,
    revisions: revisions.map((revision) => ({
      bytesBefore: cut?.bytes ?? body?.length,
      bytesAfter: revision.length,
      body: isTooBig(revision) ? undefined : readable(revision),
    })),
    attemptBodies: new Map(
      [...failures].map(([attempt, sent]) => [attempt, readable(sent.subarray(0, MOST_ERROR_BYTES))]),
    ),
    providerBody: delivered === undefined || responseBody.bytes === 0 ? undefined : readable(responseBody.joined()),
    providerBodyTooBig: delivered !== undefined && responseBody.tooMany,
  };
}

function isTooBig(body: Uint8Array | undefined): boolean {
  return body !== undefined && body.length > MOST_BODY_BYTES;
}

/**
 * The answer as the client received it, or else the provider's answer. An answer from the response cache has no bytes of
 * a provider on its own record.
 */
async function answerAgain(
  stream: StreamName,
  deps: ReplayDependencies,
  { row, responseBody }: Pick<RequestInLog, 'row' | 'responseBody'>,
): Promise<FirstBytes> {
  if (responseBody.bytes === 0 && row.cache_type === '') return responseBody;
  const recordedBody = new FirstBytes();
  const stop = new AbortController();
  try {
    for await (const part of replayAnswer(idOf(stream), deps, stop.signal)) {
      if (part.kind === 'bytes') recordedBody.add(part.bytes);
      if (recordedBody.tooMany) break;
    }
  } catch {
    // An answer that cannot be rebuilt is returned as the provider sent it.
    return responseBody;
  } finally {
    stop.abort();
  }
  return recordedBody.bytes === 0 ? responseBody : recordedBody;
}

function readable(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return parseExactly(text);
  } catch {
    return text;
  }
}
