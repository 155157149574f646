/** Runs one model request through the steps of the pipeline. */
import { LogUnavailable } from '../../../events/log.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Answer, DeliveredAnswer } from '../answer-source.ts';
import type { ExchangeDialect } from '../dialect.ts';
import { ExchangeRecord } from '../exchange-record.ts';
import { complete } from './complete.ts';
import type { Stage } from './context.ts';
import { deliver } from './deliver.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { refuseExchange } from './refuse.ts';
import { RunningExchange } from './running-exchange.ts';
import { isAnswer } from './step.ts';
import { steps } from './steps.ts';

/** Never rejects: in every case the client gets an answer or an error, and the end of the exchange is recorded. */
export function runExchange(
  dialect: ExchangeDialect,
  request: ModelRequest,
  client: Client,
  deps: ExchangeDependencies,
): Promise<void> {
  const { caller, requestId, causationId, traceparent } = request;
  const context = { actor: caller.actor, userPath: caller.userPath, requestId, causationId, traceparent };
  const record = new ExchangeRecord(deps.log, deps.newId(), context);
  deps.open.begun(record.stream);
  return runPipeline(new RunningExchange({ dialect, request, record, client, gateway: deps.gateway }), deps);
}

/** Never rejects. */
export async function runPipeline(exchange: RunningExchange, deps: ExchangeDependencies): Promise<void> {
  const { record, scope } = exchange;
  let reached: Stage | Answer = { exchange };
  let parsedRequest: ParsedRequest | undefined;
  let delivered: DeliveredAnswer | undefined;
  let isRecorded = false;
  let status: number;
  try {
    for (const step of steps) {
      // `inOrder` has checked that each step takes the result of the step before.
      const next: ReturnType<typeof step.run> = step.run(reached as never, deps);
      reached = next instanceof Promise ? await next : next;
      if (isAnswer(reached)) break;
      if ('parsedRequest' in reached) parsedRequest = reached.parsedRequest;
    }
    if (!isAnswer(reached)) throw new Error('the last step of the pipeline returned no answer');
    delivered = await deliver.run(reached, exchange);
    status = await complete.run(delivered, exchange, deps);
    isRecorded = true;
  } catch (error) {
    if (delivered !== undefined && error instanceof LogUnavailable) notStored(delivered, exchange, deps);
    status = await refuseExchange(exchange, error, parsedRequest, deps);
  }
  scope.end(isRecorded);
  deps.open.over(record.stream);
  if (exchange.pendingResponse !== undefined) deps.detached.over(exchange.pendingResponse.id);
  deps.ended(summaryOf(exchange, parsedRequest, delivered, status));
}

/** An answer was received and its end cannot be recorded. */
function notStored(delivered: DeliveredAnswer, { dialect }: RunningExchange, deps: ExchangeDependencies): void {
  if (delivered.source !== 'provider') return;
  const { parsedRequest, target } = delivered.answer;
  if (dialect.keeps?.(parsedRequest)) deps.responseNotStored(target.provider);
}

function summaryOf(
  { dialect, record, request, target, hasMissedCache, cachePlace }: RunningExchange,
  parsedRequest: ParsedRequest | undefined,
  delivered: DeliveredAnswer | undefined,
  status: number,
) {
  const outcome = delivered?.source === 'provider' ? delivered.outcome : undefined;
  const hit = delivered?.source === 'cache' ? delivered.answer : undefined;
  const answered = outcome === undefined || outcome.kind === 'refused' ? undefined : outcome;
  return {
    exchangeId: record.id,
    requestId: request.requestId,
    userPath: request.caller.userPath ?? '/',
    labels: request.labels ?? [],
    cost: Number.isNaN(record.cost) ? undefined : record.cost,
    endpoint: dialect.endpoint,
    provider: (target ?? hit?.target)?.provider.name,
    model: (target ?? hit?.target)?.model || undefined,
    status,
    stream: parsedRequest?.stream ?? false,
    durationMs: record.elapsed(),
    firstByteMs: answered?.received.firstByteMs,
    usage: answered?.relay.usage(),
    cache: hit?.cacheType ?? (hasMissedCache ? ('miss' as const) : undefined),
    isStored: cachePlace?.isKept === true,
  };
}
