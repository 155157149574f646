/** Explains whether a caller may use a model, and which rule decides: the checks of inference, one by one. Pure. */
import type { EpochMs, UserPath } from '../../events/event.ts';
import { type AccessStep, decide, type Policies } from '../access/authorizer.ts';
import { whyNotAccepted } from '../access/key-directory.ts';
import type { CallerKey } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import { expand } from './expand.ts';
import { isFor, type VirtualModel } from './virtual-model.ts';

export interface AccessQuestion {
  /** The selector as a client would write it. */
  readonly model: string;
  readonly provider: string | undefined;
  readonly userPath: UserPath | undefined;
  readonly key:
    | (CallerKey & { readonly expiresAt: number | undefined; readonly deactivatedAt: number | undefined })
    | undefined;
  readonly now: EpochMs;
}

/** The rules in force at the time of the question. */
export interface InForce extends Policies {
  /** The enabled virtual models with targets, by name. */
  readonly redirects: ReadonlyMap<string, VirtualModel>;
  /** The provider that serves a model. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  /** Whether the reader of the explanation may know of this virtual model. What leads only to others is not found. */
  isVisible(model: VirtualModel): boolean;
}

export interface ExplainedStep extends Omit<AccessStep, 'check'> {
  readonly check: 'key is accepted' | 'virtual model' | AccessStep['check'];
  /** The model of a provider that the step concerns; undefined when it concerns all of them. */
  readonly target?: string;
  /** Why a key is not accepted. */
  readonly reason?: string;
}

export interface ExplainedTarget {
  /** `<provider>/<model>` */
  readonly selector: string;
  /** The virtual models that led to it, outermost first. */
  readonly through: readonly string[];
  readonly allowed: boolean;
}

export interface Explanation {
  /** Whether a request would reach at least one of the targets. */
  readonly allowed: boolean;
  /** In the declared order; the balancing strategy may call them in another order. */
  readonly resolved: readonly ExplainedTarget[];
  readonly steps: readonly ExplainedStep[];
}

/** Undefined when no provider serves the model. */
export function explain(question: AccessQuestion, inForce: InForce): Explanation | undefined {
  const steps: ExplainedStep[] = [];
  const isAccepted = noteKey(question, steps);
  const { model, provider } = question;
  const redirect = provider === undefined ? inForce.redirects.get(model) : undefined;
  const resolved =
    redirect === undefined ? direct(question, inForce, steps) : behind(redirect, question, inForce, steps);
  if (resolved.length === 0) return undefined;
  return { allowed: isAccepted && resolved.some(({ allowed }) => allowed), resolved, steps };
}

/** @returns whether the key is accepted; true without a key */
function noteKey({ key, now }: AccessQuestion, steps: ExplainedStep[]): boolean {
  if (key === undefined) return true;
  const reason = whyNotAccepted(key, now);
  const step = { check: 'key is accepted', subject: key.id, allowed: reason === undefined } as const;
  steps.push(reason === undefined ? step : { ...step, reason });
  return step.allowed;
}

function direct(question: AccessQuestion, inForce: InForce, steps: ExplainedStep[]): ExplainedTarget[] {
  const target = inForce.resolve(question.model, question.provider);
  if (target === undefined) return [];
  return [{ selector: selectorOf(target), through: [], allowed: noteTarget(target, question, inForce, steps) }];
}

/** All targets of the virtual model, and those that remain for this caller, both expanded as routing does. */
function behind(
  model: VirtualModel,
  question: AccessQuestion,
  inForce: InForce,
  steps: ExplainedStep[],
): ExplainedTarget[] {
  const { resolve } = inForce;
  const redirect = (name: string) => inForce.redirects.get(name);
  const passes = (one: VirtualModel) => isFor(one.userPaths, question.userPath);
  if (!inForce.isVisible(model)) return [];
  const explained = new Map([[model.source, model]]);
  const everything = expand(model, {
    redirect,
    resolve,
    mayPass(one) {
      const isVisible = inForce.isVisible(one);
      if (isVisible) explained.set(one.source, one);
      return isVisible;
    },
  });
  if (everything.candidates.length === 0) return [];
  for (const [subject, one] of explained) {
    const list = one.userPaths.length === 0 ? {} : { list: one.userPaths };
    steps.push({ check: 'virtual model', subject, allowed: passes(one), ...list });
  }
  const usable = new Map<string, boolean>();
  const mayUse = (target: Target) => {
    const selector = selectorOf(target);
    const known = usable.get(selector) ?? noteTarget(target, question, inForce, steps);
    usable.set(selector, known);
    return known;
  };
  for (const { target } of everything.candidates) mayUse(target);
  const permitted = passes(model)
    ? expand(model, { redirect, resolve, mayPass: (one) => inForce.isVisible(one) && passes(one), mayUse }).candidates
    : [];
  const paths = new Map(permitted.map(({ target, through }) => [selectorOf(target), through]));
  return everything.candidates.map(({ target, through }) => {
    const selector = selectorOf(target);
    const path = paths.get(selector);
    return { selector, through: [model.source, ...(path ?? through)], allowed: path !== undefined };
  });
}

/** @returns whether all lists and policies allow the model of the provider */
function noteTarget(
  target: Target,
  { userPath, key }: AccessQuestion,
  inForce: InForce,
  steps: ExplainedStep[],
): boolean {
  const decision = decide({ userPath, key }, target.provider.name, target.model, inForce);
  steps.push(...decision.steps.map((step) => ({ ...step, target: selectorOf(target) })));
  return decision.allowed;
}

function selectorOf({ provider, model }: Target): string {
  return `${provider.name}/${model}`;
}
