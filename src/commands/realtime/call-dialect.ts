/**
 * `POST /v1/realtime/calls`: the description of a WebRTC session (SDP) goes to the provider, and its answer to the client.
 * The audio then passes between the two without the gateway.
 */
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import type { ExchangeDialect } from '../exchange/dialect.ts';
import { forwardStream, openedForm } from '../exchange/dialects/forward/forward-dialect.ts';
import type { ReadResult } from '../model-request/model-request.ts';
import { refusals } from '../refusal.ts';
import { transcriptionRequested } from './messages.ts';
import { REALTIME, type RealtimeRequest, realtimeNotServed } from './realtime-dialect.ts';

interface CallRequest extends Pick<RealtimeRequest, 'model' | 'provider' | 'session'> {
  readonly limitBytes: number;
  hasRealtime(type: string): boolean;
  /** Whether the caller may use the model. */
  mayUse(provider: string, model: string): boolean;
}

export const CALLS = `${REALTIME}/calls`;

/** One dialect per request, since a form is read once, as it arrives. */
export function callDialect({
  model,
  provider,
  session,
  limitBytes,
  hasRealtime,
  mayUse,
}: CallRequest): ExchangeDialect {
  let call: { readonly sdp: string; readonly session: Readonly<Record<string, unknown>> } | undefined;
  const missing = (name: string): ReadResult => ({
    ok: false,
    refusal: refusals.invalidRequest(`Missing required parameter: '${name}'.`, name, 'missing_required_parameter'),
  });
  return {
    name: 'forward',
    endpoint: CALLS,
    mayBeFree: true,
    read: () => missing('sdp'),
    async take(request) {
      let sdp = request.body.toString();
      let config = session ?? {};
      if (request.bodyPieces !== undefined) {
        const opened = await openedForm(request, limitBytes, () => false);
        if (!opened.ok) return opened;
        const { fields } = opened.form;
        sdp = fields.get('sdp') ?? '';
        const given = fields.get('session');
        // The configuration of a client secret was decided by its creator.
        if (session === undefined && given !== undefined) {
          const parsed = parsedSession(given);
          if (parsed === undefined)
            return { ok: false, refusal: refusals.invalidRequest("'session' must be a JSON object.", 'session') };
          config = parsed;
        }
      }
      if (sdp.trim() === '') return missing('sdp');
      const named = model ?? config.model;
      if (typeof named !== 'string' || named === '') return missing('model');
      call = { sdp, session: config };
      return { ok: true, parsedRequest: { model: named, provider, stream: false, json: {} } };
    },
    async plan({ target, reservation }) {
      if (call === undefined) throw new Error('the request was not read');
      if (!hasRealtime(target.provider.type)) throw realtimeNotServed();
      for (const transcription of transcriptionRequested({ type: 'session.update', session: call.session })) {
        if (!mayUse(target.provider.name, transcription)) throw refusals.modelAccessDenied(transcription);
      }
      if (reservation?.isCounted) throw refusals.callUnmetered();
      const fields = [
        { name: 'sdp', value: call.sdp },
        { name: 'session', value: JSON.stringify({ type: 'realtime', ...call.session, model: target.model }) },
      ];
      const form = new FormData();
      for (const { name, value } of fields) form.set(name, value);
      const encoded = new Response(form);
      const contentType = encoded.headers.get('content-type') ?? 'multipart/form-data';
      return {
        kind: 'forward',
        dialect: 'forward',
        answer: 'anything',
        call: { method: 'POST', path: CALLS, openAi: true, headers: { 'content-type': contentType } },
        body: Buffer.from(await encoded.arrayBuffer()),
        fields,
        repeatable: false,
        newStream: () => forwardStream(target.provider, false),
      };
    },
    streamOfRecorded: (past) => forwardStream(past.provider, false),
    answerHeaders({ headers: { 'content-type': type = 'application/sdp', location } }) {
      return { 'content-type': type, ...(location !== undefined && { location }) };
    },
  };
}

function parsedSession(text: string): Record<string, unknown> | undefined {
  try {
    const session = parseExactly(text);
    return isObject(session) ? session : undefined;
  } catch {
    return undefined;
  }
}
