/** Why a request got no regular answer: who decided it, what the client received, and what to do about it. */
import { type ExchangeFacts, runsOf } from './exchange-facts.ts';
import { numberOf, textOf, textsOf } from './recorded-event.ts';

export interface EndedWhy {
  /** In one sentence: who decided it. */
  readonly decision: string;
  /** The part of the gateway, or another one, that decided it. */
  readonly decidedBy:
    | 'guardrail'
    | 'plugin'
    | 'budget'
    | 'rate limit'
    | 'access rule'
    | 'provider'
    | 'client'
    | 'gateway'
    | 'request';
  readonly status: number;
  readonly code: string | undefined;
  readonly message: string | undefined;
  readonly advice: string;
  /** A page of the API or the dashboard with the facts of the decision. */
  readonly facts?: {
    readonly path: string;
    readonly query: Readonly<Record<string, string | undefined>>;
    readonly title: string;
  };
}

/** Undefined while the request is running, and when it was answered without an error. */
export function endedWhy(facts: ExchangeFacts): EndedWhy | undefined {
  const { end } = facts;
  if (end === undefined || (end.type === 'exchange.completed' && facts.status < 400)) return undefined;
  if (end.type === 'client.disconnected') {
    return {
      ...{ decidedBy: 'client', decision: 'The client disconnected before its answer was complete.' },
      ...{ status: 499, code: undefined, message: undefined },
      advice:
        'Compare the duration with the time limit of the client. What the provider had sent until then is recorded.',
    };
  }
  const code = textOf(end.data, 'code');
  const message = textOf(end.data, 'message');
  const head = { status: facts.status, code, message };
  const blocking = blockingGuardrail(facts);
  if (blocking !== undefined) return { ...head, ...blocking };
  const plugin = facts.plugins.find(({ data }) => data['refused'] !== undefined || data['failMode'] === 'closed');
  if (plugin !== undefined) {
    const name = textOf(plugin.data, 'plugin') ?? '';
    const failed = textOf(plugin.data, 'error');
    return {
      ...{ ...head, decidedBy: 'plugin' },
      decision:
        failed === undefined ? `The plugin ${name} refused the request.` : `The plugin ${name} failed: ${failed}`,
      advice: 'Change the request as the message says, or the plugin and its settings.',
    };
  }
  return { ...head, ...ofCode(facts, code) };
}

type Decision = Pick<EndedWhy, 'decision' | 'decidedBy' | 'advice' | 'facts'>;

function blockingGuardrail({ guardrails }: ExchangeFacts): Decision | undefined {
  const event = guardrails.findLast(({ data }) => ['block', 'failure'].includes(textOf(data, 'verdict') ?? ''));
  if (event === undefined) return undefined;
  const verdict = textOf(event.data, 'verdict') ?? '';
  const name = textOf(event.data, 'decidedBy') ?? '';
  const run = runsOf(event).find((one) => one.guardrail === name && one.verdict === verdict);
  // A failure is an end only where the guardrail fails closed.
  if (verdict === 'failure' && run?.error === undefined) return undefined;
  const what = textOf(event.data, 'phase') === 'prompt' ? 'the request' : 'the answer';
  const found = run === undefined || run.findings.length === 0 ? '' : `(${run.findings.join(', ')})`;
  const why = [run?.message ?? '', found].filter((one) => one !== '').join(' ');
  return {
    decidedBy: 'guardrail',
    decision:
      verdict === 'failure'
        ? `The guardrail ${name} failed: ${run?.error ?? ''}`
        : `The guardrail ${name} blocked ${what}${why === '' ? '.' : `: ${why}`}`,
    advice:
      verdict === 'failure'
        ? 'Check the guardrail and what it calls. A guardrail with fail mode open lets requests pass when it fails.'
        : 'Change the text as the message says, or the guardrail or the workflow that applies it.',
  };
}

function ofCode(facts: ExchangeFacts, code: string | undefined): Decision {
  const { requestedModel, received, provider } = facts;
  const key = received.actor.startsWith('key:') ? received.actor.slice('key:'.length) : undefined;
  const explain = {
    path: '/admin/explain',
    title: 'Rules that apply to this model and caller',
    query: { model: requestedModel, user_path: key === undefined ? received.user_path : undefined, key },
  };
  switch (code) {
    case 'model_access_denied':
      return {
        ...{ decidedBy: 'access rule', facts: explain },
        decision: `An access rule does not allow ${requestedModel ?? 'the model'} for this key or user path.`,
        advice: 'Allow the model for the user path or the key, or request another model.',
      };
    case 'model_not_found':
    case 'unknown_provider':
      return {
        decidedBy: 'request',
        decision: `No configured provider serves ${requestedModel ?? 'the requested model'}.`,
        advice: 'Request a model of GET /v1/models, or configure a provider or a virtual model of that name.',
      };
    case 'budget_exceeded':
      return {
        ...{ decidedBy: 'budget', decision: 'A budget is used up.' },
        advice: 'Wait until the period of the budget ends, or raise the budget that the message names.',
      };
    case 'rate_limit_exceeded':
      return facts.attempts.length > 0 || facts.end?.type === 'exchange.failed'
        ? {
            ...{ decidedBy: 'provider', decision: `The provider ${provider ?? ''} limits the rate of requests.` },
            advice: 'Send fewer requests, or add credentials or another target for failover.',
          }
        : {
            ...{ decidedBy: 'rate limit', decision: 'A rate limit is reached.' },
            advice: 'Wait for the time that the message names, or raise the limit.',
          };
    case 'provider_unavailable':
      return {
        ...{ decidedBy: 'gateway', decision: `The circuit breaker of the provider ${provider ?? ''} is open.` },
        advice: 'The provider failed repeatedly before. It is tried again by itself; a virtual model can fail over.',
      };
    case 'not_cached':
      return {
        ...{ decidedBy: 'request', decision: 'The request accepts only cached answers, and none is cached.' },
        advice: 'Send the request without Cache-Control: only-if-cached.',
      };
    case 'overloaded':
    case 'stopping':
    case 'log_unavailable':
      return {
        ...{ decidedBy: 'gateway', decision: 'The gateway could not take the request at that time.' },
        advice: 'Send the request again after the time in Retry-After. Nothing of it was executed.',
      };
  }
  if (facts.attempts.length > 0) {
    const failed = facts.attempts.at(-1)?.failed;
    const status = failed === undefined ? undefined : numberOf(failed.data, 'status');
    const reason = textOf(facts.end?.data ?? {}, 'reason');
    if (reason !== undefined && reason !== 'provider_error' && reason !== 'stream_broken') {
      return { decidedBy: 'gateway', decision: ofReason(reason), advice: 'Send the request again.' };
    }
    return {
      decidedBy: 'provider',
      decision:
        status === undefined
          ? `The provider ${provider ?? ''} gave no complete answer.`
          : `The provider ${provider ?? ''} answered with status ${status}.`,
      advice:
        status !== undefined && status < 500
          ? 'Read the message of the provider: it usually names the part of the request that it does not accept.'
          : 'Send the request again later, or add another target for failover.',
    };
  }
  return {
    ...{ decidedBy: 'request', decision: 'The gateway refused the request before a provider was called.' },
    advice: 'Change the request as the message says.',
  };
}

const reasons: Readonly<Record<string, string>> = {
  guardrail: 'A guardrail ended the answer.',
  upload_failed: 'The upload of the client broke off.',
  budget_exceeded: 'A budget did not allow another attempt.',
  gateway_stopped: 'The gateway stopped while the request was running.',
  log_unavailable: 'The event log could not be written.',
  internal_error: 'The gateway failed.',
  cancelled: 'The response was cancelled.',
};

function ofReason(reason: string): string {
  return reasons[reason] ?? `The request ended: ${reason}.`;
}

/** Codes of warnings that guardrails gave, each once. */
export function warningsOf({ guardrails }: ExchangeFacts): readonly string[] {
  return [...new Set(guardrails.flatMap(({ data }) => textsOf(data, 'warnings')))];
}
