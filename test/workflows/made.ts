/** Workflows and guardrails on a real log, with small guardrail types of the tests. */
import { z } from 'zod';
import { createSealer } from '../../src/commands/credentials/credential.ts';
import { GuardrailChanges } from '../../src/commands/guardrails/changes.ts';
import { GuardrailDirectory } from '../../src/commands/guardrails/directory.ts';
import {
  type Guardrail,
  type GuardrailInput,
  type GuardrailTypes,
  prepareGuardrail,
  sealingPlace,
  type UsableType,
} from '../../src/commands/guardrails/guardrail.ts';
import type { CompiledGuardrail, GuardrailType } from '../../src/commands/guardrails/guardrail-type.ts';
import { Guard } from '../../src/commands/handle-command.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { WorkflowChanges } from '../../src/commands/workflows/changes.ts';
import { WorkflowDirectory, workflowUses } from '../../src/commands/workflows/directory.ts';
import type { WorkflowDraft, WorkflowFeatures, WorkflowStep } from '../../src/commands/workflows/workflow.ts';
import { type PayloadInput, type WorkflowInput, workflowDraft } from '../../src/commands/workflows/workflow-input.ts';
import { guardAdvanced } from '../../src/events/catalogue/gateway.ts';
import type { RecordedEvent, UserPath } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { EventLog } from '../../src/events/log.ts';
import { adminJournal } from '../../src/projections/admin-journal.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { guardrailsView, workflowsView } from '../../src/projections/workflows.ts';

export const admin = { actor: 'master' } as const;
export const allOn: WorkflowFeatures = {
  cache: true,
  audit: true,
  usage: true,
  budget: true,
  guardrails: true,
  failover: true,
};

const nothing: CompiledGuardrail = {};

const common = { label: 'A type of the tests', description: '', fields: [], defaults: {}, summary: () => '' };

/** Changes texts, and has no stream phase. */
const shout: GuardrailType<{ words?: string | undefined }> = {
  ...common,
  type: 'shout',
  phases: ['prompt', 'response'],
  mutating: true,
  config: z.strictObject({ words: z.string().optional() }),
  compile: () => nothing,
};

/** Changes nothing. Runs on streams only with a limit. */
const watch: GuardrailType<{ limit: number }> = {
  ...common,
  type: 'watch',
  phases: ['prompt', 'response', 'stream'],
  mutating: false,
  config: z.strictObject({
    limit: z
      .number()
      .min(0)
      .refine((limit) => limit !== 13),
  }),
  defaults: { limit: 0 },
  phaseProblem: ({ limit }, phase) => (phase === 'stream' && limit === 0 ? "it needs a 'limit'" : undefined),
  compile: () => nothing,
};

/** The configurations with which vaults were compiled, their secrets opened. */
export const vaultConfigs: unknown[] = [];

/** Has a secret. */
const vault: GuardrailType<{ url: string; token?: string | undefined }> = {
  ...common,
  type: 'vault',
  phases: ['prompt'],
  mutating: false,
  fields: [
    { key: 'url', label: 'URL', input: 'text', required: true, scope: '' },
    { key: 'token', label: 'Token', input: 'secret', required: false, scope: '' },
  ],
  config: z.strictObject({ url: z.string().min(1), token: z.string().optional() }),
  compile(config) {
    vaultConfigs.push(config);
    return nothing;
  },
};

function usable<Config>(type: GuardrailType<Config>): UsableType {
  const { label, description, phases, mutating, defaults, fields } = type;
  return {
    ...{ type: type.type, label, description, phases, mutating, defaults, fields },
    read(given) {
      const parsed = type.config.safeParse(given);
      if (!parsed.success) {
        const [issue] = parsed.error.issues;
        const keys = issue?.code === 'unrecognized_keys' ? issue.keys : (issue?.path ?? []);
        return { ok: false, problem: issue?.message ?? '', key: keys.map(String).join('.') };
      }
      return {
        ok: true,
        summary: type.summary(parsed.data),
        mutating,
        phaseProblem: (phase) => type.phaseProblem?.(parsed.data, phase),
        compile: (services) => type.compile(parsed.data, services),
      };
    },
  };
}

export const types: GuardrailTypes = new Map(
  [usable(shout), usable(watch), usable(vault)].map((type) => [type.type, type]),
);

export const sealer = createSealer('0123456789abcdef0123456789abcdef');

/** Everything around workflows, on this log. */
export async function openWorkflows(
  log: EventLog,
  { switches = allOn, declared = new Map() }: { switches?: WorkflowFeatures; declared?: Map<string, Guardrail> } = {},
) {
  const runner = createProjectionRunner(log);
  const workflows = runner.run(workflowsView);
  const guardrailsStored = runner.run(guardrailsView);
  const journal = runner.run(adminJournal);
  await Promise.all([workflows.caughtUp, guardrailsStored.caughtUp, journal.caughtUp]);
  const counts = { prepared: 0 };
  const prepare = (guardrail: Guardrail) => {
    counts.prepared += 1;
    return prepareGuardrail(guardrail, {
      types,
      openSecret: (name, field, sealed) => sealer.open(sealingPlace(name), field, sealed),
      servicesOf: ({ name, userPath }) => ({
        name,
        userPath,
        callModel: () => Promise.reject(new Error('no model')),
        fetch: () => Promise.reject(new Error('no server')),
      }),
    });
  };
  const guardrails = new GuardrailDirectory({ stored: guardrailsStored, declared, prepare });
  const directory = new WorkflowDirectory({ stored: workflows, guardrails, switches });
  const guard = new Guard({
    log,
    rule: 'workflows',
    whenProcessed: (position) =>
      Promise.all([workflows.whenProcessed(position), guardrailsStored.whenProcessed(position)]),
  });
  return {
    log,
    directory,
    guardrails,
    counts,
    prepare,
    states: { workflows, guardrails: guardrailsStored, journal },
    changes: new WorkflowChanges({
      log,
      directory,
      guardrails,
      guard,
      newId: mintEventId,
    }),
    guardrailChanges: new GuardrailChanges({
      directory: guardrails,
      types,
      uses: workflowUses(directory, guardrails),
      sealers: { toSeal: () => sealer },
      refusesAddress: async () => false,
      guard,
    }),
    close: () => runner.close(),
  };
}

const targets = {
  instanceOf: (name: string) => ({ openai: 'openai', local: 'local', llamacpp: 'local' })[name],
  serves: (provider: string, model: string) => provider !== 'nobody' && model !== 'unknown',
};

export function steps(...of: (WorkflowStep | string)[]): PayloadInput {
  const all = of.map((one) => (typeof one === 'string' ? { ref: one } : one));
  return { features: allOn, steps: all };
}

export function input(more: Partial<Omit<WorkflowInput, 'userPath'>> & { userPath?: string } = {}): WorkflowInput {
  const { userPath, ...rest } = more;
  const path = userPath === undefined ? {} : { userPath: userPath as UserPath };
  return { name: 'a workflow', payload: { features: allOn, steps: [] }, ...rest, ...path };
}

/** @throws Refusal */
export function draft(more: Parameters<typeof input>[0] = {}): WorkflowDraft {
  const made = workflowDraft(input(more), targets);
  if (made instanceof Refusal) throw made;
  return made;
}

/** The refusal of an input; undefined when it is accepted. */
export function refusalOf(more: Parameters<typeof input>[0]): Refusal | undefined {
  const made = workflowDraft(input(more), targets);
  return made instanceof Refusal ? made : undefined;
}

export function guardrail(name: string, type = 'watch', config: Record<string, unknown> = {}): GuardrailInput {
  return { name, type, config };
}

/** Without those of the guard (`test/gateways/guards.test.ts`). */
export async function eventsOf(log: EventLog): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const event of log.readAll()) if (event.type !== guardAdvanced.type) events.push(event);
  return events;
}

/** The refusal with which the work ends. */
export async function refused(work: Promise<unknown>): Promise<Refusal> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof Refusal) return error;
  throw new Error(`it was not refused: ${String(error)}`);
}
