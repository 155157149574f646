/** A replay by the command line: on a log that is only read, beside a gateway or without one. Calls nothing. */
import type { LocalReplay, ReplayProblem, ReplayReport } from '../cli/program-parts.ts';
import { declaredGuardrails, GuardrailDirectory } from '../commands/guardrails/directory.ts';
import { prepareGuardrail, sealingPlace } from '../commands/guardrails/guardrail.ts';
import { checkDraft, type DraftParts } from '../commands/guardrails/replay/draft.ts';
import { ReplayRun } from '../commands/guardrails/replay/run-replay.ts';
import { Refusal } from '../commands/refusal.ts';
import type { ScopeTargets } from '../commands/workflows/workflow-input.ts';
import type { Config } from '../config/config.ts';
import { CompiledFilter, type EventLog } from '../events/log.ts';
import {
  type DraftContext,
  replayBody,
  replayDraft,
  replayOptions,
  resultRowOf,
} from '../http/admin/guardrails/replay.ts';
import { guardrailsView, workflowsView } from '../projections/workflows.ts';
import { credentialsKey } from './credentials-key.ts';
import { modelDialects } from './dialects.ts';
import { guardrailTypes as types } from './guardrail-types.ts';
import { storedObjects } from './log/views.ts';
import { rulesOf } from './workflows.ts';

/** How often progress is shown. */
const PROGRESS_MS = 200;

export async function replayGuardrails(
  config: Config,
  log: EventLog,
  { body, signal, onProgress }: LocalReplay,
): Promise<ReplayReport | ReplayProblem> {
  const read = replayBody.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    return { problem: issue?.message ?? 'it is invalid', param: issue?.path.join('.') || null };
  }
  try {
    const options = replayOptions(read.data, Date.now());
    const { parts, scopes } = await inForce(config, log, signal);
    const draft = checkDraft(replayDraft(read.data, parts), parts);
    if (draft instanceof Refusal) throw draft;
    const stored = storedObjects(log, credentialsKey({ dataDir: config.dataDir, ...config.credentials }));
    const dialects = modelDialects({ config, log, stored, contextWindow: () => undefined, learned: () => {} });
    const deps = { log, dialects, archive: stored.archive, scopes, ratesOf: () => undefined };
    const run = new ReplayRun('local', draft, options, deps);
    const shown = setInterval(() => onProgress(run.progress.done), PROGRESS_MS);
    try {
      await run.run(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      clearInterval(shown);
    }
    return resultRowOf(run.result());
  } catch (error) {
    if (error instanceof Refusal) return { problem: error.message, param: error.param };
    throw error;
  }
}

/** The guardrails and the scopes of the workflows at the end of the log. */
async function inForce(config: Config, log: EventLog, signal: AbortSignal) {
  let guardrails = guardrailsView.initial();
  let workflows = workflowsView.initial();
  const filters = [guardrailsView, workflowsView].map(({ filter }) => filter.types ?? []);
  const isOfGuardrails = new CompiledFilter(guardrailsView.filter);
  const head = await log.head();
  for await (const event of log.readAll({ filter: { types: filters.flat() }, signal })) {
    if (event.position > head) break;
    if (isOfGuardrails.acceptsType(event.type)) guardrails = guardrailsView.apply(guardrails, event);
    else workflows = workflowsView.apply(workflows, event);
  }
  const key = credentialsKey({ dataDir: config.dataDir, ...config.credentials });
  const refuse = () => Promise.reject(new Error('a replay on the log calls nothing'));
  const prepare: DraftParts['prepare'] = (guardrail, services = (of) => of) =>
    prepareGuardrail(guardrail, {
      types,
      openSecret: (name, field, sealed) => key.toOpen().open(sealingPlace(name), field, sealed),
      servicesOf: ({ name, userPath, failMode }) =>
        services({ name, userPath, failMode, callModel: refuse, fetch: refuse }),
    });
  const declared = declaredGuardrails(rulesOf(config), types, (one) => prepare(one)).guardrails;
  const directory = new GuardrailDirectory({ stored: { state: guardrails }, declared, prepare: (one) => prepare(one) });
  const context: DraftContext & DraftParts = {
    targets: targetsOf(config),
    types,
    sealers: { toSeal: noSealer },
    guardrail: (name) => directory.inForce.get(name),
    inForce: directory,
    prepare,
  };
  return { parts: context, scopes: [...workflows.active.values()].map(({ workflow }) => workflow.scope) };
}

/** Creating the key would write to the data folder. */
function noSealer(): never {
  throw new Error('a replay on the log only reads; a draft with secrets needs --gateway');
}

/** Which models a provider serves is not known here, nor which providers were created at run time. */
function targetsOf({ providers }: Config): ScopeTargets {
  return {
    instanceOf: (given) =>
      (providers.find(({ name }) => name === given) ?? providers.find(({ type }) => type === given))?.name ?? given,
    serves: () => true,
  };
}
