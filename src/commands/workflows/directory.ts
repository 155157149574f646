/** The workflows in force, compiled. A request finds its own by a few lookups in memory. */

import type { VersionPlace, WorkflowRecord, WorkflowsState } from '../../projections/workflows.ts';
import type { BrokenUse, WorkflowUses } from '../guardrails/changes.ts';
import { isPrepared, type PreparedGuardrail } from '../guardrails/guardrail.ts';
import { type CompiledWorkflow, compileWorkflow, type GuardrailCatalogue, stepProblem } from './chains.ts';
import {
  isAtOrBelow,
  type ScopeType,
  scopeDisplay,
  scopeType,
  stepsOf,
  type WorkflowFeatures,
  type WorkflowScope,
  type WorkflowStep,
  type WorkflowVersion,
} from './workflow.ts';

interface WorkflowDirectoryOptions {
  readonly stored: { readonly state: WorkflowsState };
  readonly guardrails: GuardrailCatalogue & { readonly inForce: { readonly version: number } };
  /** What the configuration of the process allows. */
  readonly switches: WorkflowFeatures;
}

interface InForce {
  readonly byId: ReadonlyMap<string, CompiledWorkflow>;
  readonly index: WorkflowIndex<CompiledWorkflow>;
}

/** A version is compiled once, and again after a change of the guardrails. */
export class WorkflowDirectory {
  readonly #options: WorkflowDirectoryOptions;
  #seen: WorkflowsState | undefined;
  #seenVersion = -1;
  #seenGuardrails = -1;
  #inForce: InForce = { byId: new Map(), index: new WorkflowIndex([]) };

  constructor(options: WorkflowDirectoryOptions) {
    this.#options = options;
  }

  /** The workflow of a request; undefined when there is no global one and no other matches. */
  select(
    userPath: string | undefined,
    provider: string | undefined,
    model: string | undefined,
  ): CompiledWorkflow | undefined {
    return this.#current().index.find(userPath, provider, model);
  }

  /** The active workflows. */
  get active(): Iterable<CompiledWorkflow> {
    return this.#current().byId.values();
  }

  /** Undefined when it is not active. */
  activeById(id: string): CompiledWorkflow | undefined {
    return this.#current().byId.get(id);
  }

  storedAs(key: string): WorkflowRecord | undefined {
    return this.#options.stored.state.active.get(key);
  }

  placeOf(id: string): VersionPlace | undefined {
    return this.#options.stored.state.places.get(id);
  }

  /** Any version, active or not, with the guardrails in force. */
  compile(workflow: WorkflowVersion): CompiledWorkflow {
    const { guardrails, switches } = this.#options;
    return this.activeById(workflow.id) ?? compileWorkflow(workflow, guardrails, switches);
  }

  #current(): InForce {
    const { stored, guardrails } = this.#options;
    const now = stored.state;
    const { version } = guardrails.inForce;
    const areSame = version === this.#seenGuardrails;
    if (now !== this.#seen || now.version !== this.#seenVersion || !areSame) {
      this.#inForce = this.#compiled(now, areSame);
      this.#seen = now;
      this.#seenVersion = now.version;
      this.#seenGuardrails = version;
    }
    return this.#inForce;
  }

  /** @param areSame whether the guardrails are those of the last time, so that compiled versions are still valid */
  #compiled({ active }: WorkflowsState, areSame: boolean): InForce {
    const { guardrails, switches } = this.#options;
    const known = this.#inForce.byId;
    const compiled = [...active.values()].map(({ workflow }) => {
      const found = areSame ? known.get(workflow.id) : undefined;
      return found ?? compileWorkflow(workflow, guardrails, switches);
    });
    return {
      byId: new Map(compiled.map((one) => [one.workflow.id, one])),
      index: new WorkflowIndex(compiled.map((one) => [one.workflow.scope, one])),
    };
  }
}

/**
 * Finds the one workflow of a request. The path of the caller is tried first, then each path above it; for each path
 * the workflow of provider and model, of the provider, of the path alone. Then those without a path in the same
 * order, and the global one last. A caller without a path is at `/`.
 */
interface OfProvider<Entry> {
  any?: Entry;
  readonly models: Map<string, Entry>;
}

/** The workflows of one path, or those without a path. */
interface Level<Entry> {
  /** Of the path alone; without a path, the global one. */
  any?: Entry;
  readonly providers: Map<string, OfProvider<Entry>>;
}

export class WorkflowIndex<Entry> {
  readonly #anywhere = emptyLevel<Entry>();
  readonly #paths = new Map<string, Level<Entry>>();
  /** Segments of the longest path that has a workflow: longer paths need not be tried. */
  #mostSegments = 0;

  /** One entry for each scope. */
  constructor(entries: Iterable<readonly [WorkflowScope, Entry]>) {
    for (const [scope, entry] of entries) this.#add(scope, entry);
  }

  /** @param provider undefined for a request without a target, which only workflows of paths and the global one match */
  find(userPath: string | undefined, provider: string | undefined, model: string | undefined): Entry | undefined {
    if (this.#paths.size > 0) {
      let path = beginningOf(userPath ?? '/', this.#mostSegments);
      for (;;) {
        const level = this.#paths.get(path);
        const found = level === undefined ? undefined : foundIn(level, provider, model);
        if (found !== undefined) return found;
        if (path === '/') break;
        const slash = path.lastIndexOf('/');
        path = slash <= 0 ? '/' : path.slice(0, slash);
      }
    }
    return foundIn(this.#anywhere, provider, model);
  }

  #add({ provider, model, userPath }: WorkflowScope, entry: Entry): void {
    if (userPath !== undefined) this.#mostSegments = Math.max(this.#mostSegments, userPath.split('/').length - 1);
    const level = userPath === undefined ? this.#anywhere : got(this.#paths, userPath, emptyLevel<Entry>);
    if (provider === undefined) {
      level.any = entry;
      return;
    }
    const ofProvider = got<string, OfProvider<Entry>>(level.providers, provider, () => ({ models: new Map() }));
    if (model === undefined) ofProvider.any = entry;
    else ofProvider.models.set(model, entry);
  }
}

/** The path, or the path above it that has so many segments. */
function beginningOf(path: string, segments: number): string {
  let slash = 0;
  for (let left = segments; left > 0; left--) {
    slash = path.indexOf('/', slash + 1);
    if (slash === -1) return path;
  }
  return slash === 0 ? '/' : path.slice(0, slash);
}

function emptyLevel<Entry>(): Level<Entry> {
  return { providers: new Map() };
}

function foundIn<Entry>(
  { any, providers }: Level<Entry>,
  provider: string | undefined,
  model: string | undefined,
): Entry | undefined {
  const ofProvider = provider === undefined || providers.size === 0 ? undefined : providers.get(provider);
  if (ofProvider === undefined) return any;
  return (model === undefined ? undefined : ofProvider.models.get(model)) ?? ofProvider.any ?? any;
}

function got<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = create();
    map.set(key, value);
  }
  return value;
}

// Which active workflows use a guardrail, and whether they could use another definition of it.

/** Only workflows whose guardrails are on count, whatever the configuration of the process allows. */
export function workflowUses(
  workflows: Pick<WorkflowDirectory, 'active'>,
  catalogue: GuardrailCatalogue,
): WorkflowUses {
  const usesOf = (name: string) => {
    const used = [...workflows.active].filter(({ workflow }) => workflow.payload.features.guardrails);
    return used.flatMap(({ workflow }) => {
      const steps = stepsOf(workflow.payload);
      const own = steps.filter(({ ref }) => ref === name);
      return own.length === 0 ? [] : [{ scope: scopeDisplay(workflow.scope), own, steps }];
    });
  };
  return {
    scopesUsing: (name) => usesOf(name).map(({ scope }) => scope),
    brokenBy: (changed) =>
      usesOf(changed.definition.name).flatMap(({ scope, own, steps }) =>
        own.flatMap((use) => brokenUse(scope, use, steps, changed, catalogue)),
      ),
  };
}

function brokenUse(
  scope: string,
  use: WorkflowStep,
  steps: readonly WorkflowStep[],
  changed: PreparedGuardrail,
  catalogue: GuardrailCatalogue,
): BrokenUse[] {
  const { name } = changed.definition;
  // A guardrail beside it that cannot run is not the fault of this change.
  const beside = steps.filter(
    ({ ref, phase, step }) =>
      ref !== name && phase === use.phase && step === use.step && isPrepared(catalogue.prepared(ref)),
  );
  const after = { prepared: (ref: string) => (ref === name ? changed : catalogue.prepared(ref)) };
  const found = stepProblem([use, ...beside], after);
  return found === undefined ? [] : [{ use: `${scope} (${use.phase})`, problem: found.problem }];
}

/** Explains which workflow a request gets, and why the others do not match. Pure. */
interface WorkflowQuestion {
  readonly userPath: string | undefined;
  /** The first candidate of the request; undefined when none is known. */
  readonly provider: string | undefined;
  readonly model: string | undefined;
}

/** Why a workflow does not apply: its path, provider or model is another, or the matching one is more specific. */
type MismatchReason = 'other user path' | 'other provider' | 'other model' | 'less specific';

interface OtherWorkflow {
  readonly id: string;
  readonly name: string;
  readonly scope: string;
  readonly scopeType: ScopeType;
  readonly reason: MismatchReason;
}

export interface WorkflowExplanation {
  /** Undefined when no workflow matches. */
  readonly matching: CompiledWorkflow | undefined;
  /** Sorted by scope; those that would match first. */
  readonly others: readonly OtherWorkflow[];
  /** Number of further workflows that are not in `others`. */
  readonly omitted: number;
}

const MAX_OTHERS = 100;

export function explainWorkflow(
  question: WorkflowQuestion,
  directory: Pick<WorkflowDirectory, 'select' | 'active'>,
): WorkflowExplanation {
  const { userPath, provider, model } = question;
  const matching = directory.select(userPath, provider, model);
  const others: OtherWorkflow[] = [];
  for (const one of directory.active) {
    if (one === matching) continue;
    const { id, name, scope } = one.workflow;
    const reason = mismatch(one, question) ?? 'less specific';
    others.push({ id, name, scope: scopeDisplay(scope), scopeType: scopeType(scope), reason });
  }
  others.sort((a, b) => rank(a) - rank(b) || (a.scope < b.scope ? -1 : 1));
  return { matching, others: others.slice(0, MAX_OTHERS), omitted: Math.max(0, others.length - MAX_OTHERS) };
}

function rank({ reason }: OtherWorkflow): number {
  return reason === 'less specific' ? 0 : 1;
}

/** Undefined when the workflow is for such requests, and only another one is more specific. */
function mismatch({ workflow: { scope } }: CompiledWorkflow, question: WorkflowQuestion): MismatchReason | undefined {
  if (scope.userPath !== undefined && !isAtOrBelow(question.userPath ?? '/', scope.userPath)) return 'other user path';
  if (scope.provider !== undefined && scope.provider !== question.provider) return 'other provider';
  if (scope.model !== undefined && scope.model !== question.model) return 'other model';
  return undefined;
}
