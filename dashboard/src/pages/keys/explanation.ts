/** The answer of `GET /admin/explain` in words. Pure. */

export interface Step {
  readonly check: 'key is accepted' | 'virtual model' | 'model policy' | 'key' | 'user path';
  readonly subject: string;
  /** The model of a provider that the step concerns; absent for all of them. */
  readonly target?: string | undefined;
  readonly allowed: boolean;
  readonly list?: readonly string[] | undefined;
  readonly reason?: string | undefined;
  readonly source: 'event' | 'config' | 'default';
  readonly event: { readonly at: string; readonly actor: string } | null;
}

export interface Explanation {
  readonly allowed: boolean;
  readonly model: string;
  readonly user_path: string | null;
  readonly key: string | null;
  readonly as_of: object | null;
  readonly resolved: readonly {
    readonly selector: string;
    readonly through: readonly string[];
    readonly allowed: boolean;
  }[];
  readonly steps: readonly Step[];
}

/** Who is meant: `The key “ci” at /team`. */
export function callerOf({ key, user_path: path }: Explanation, keyName: string | undefined): string {
  const at = path === null ? '' : ` at ${path}`;
  if (key !== null) return `The key “${keyName ?? key}”${at}`;
  return path === null ? 'A caller without a user path' : `A caller at ${path}`;
}

/** `The key “ci” at /team may use openai/gpt-5-mini.` */
export function answerSentence(explanation: Explanation, keyName: string | undefined): string {
  const { allowed, model, as_of: asOf, resolved } = explanation;
  const verb = asOf === null ? (allowed ? 'may use' : 'may not use') : allowed ? 'could use' : 'could not use';
  const targets = resolved.filter((one) => one.allowed).map(({ selector }) => selector);
  const through =
    allowed && resolved.some(({ through: names }) => names.length > 0) ? `, as ${targets.join(' or ')}` : '';
  return `${callerOf(explanation, keyName)} ${verb} ${model}${through}.`;
}

/**
 * The steps that decide the answer: those that refuse it; when it is allowed, the lists that have the model, or without
 * any the policy of the model.
 */
export function decidingSteps({ allowed, steps }: Explanation): readonly Step[] {
  if (!allowed) return steps.filter((step) => !step.allowed);
  const lists = steps.filter(({ check, allowed: isIn }) => isIn && (check === 'user path' || check === 'key'));
  return lists.length > 0 ? lists : steps.filter(({ check }) => check === 'model policy');
}

/** What a step is about: `the list of /team`. */
export function stepTitle({ check, subject }: Step): string {
  if (check === 'key is accepted') return 'the key is accepted';
  if (check === 'key') return 'the list of the key';
  if (check === 'user path') return `the list of ${subject}`;
  if (check === 'virtual model') return `the user paths of the virtual model ${subject}`;
  return subject === 'default' ? 'models without a policy' : `the policy of ${subject}`;
}

/** In the history; undefined for what has none. */
export function subjectOfStep({ check, subject, source }: Step): string | undefined {
  if (source !== 'event') return undefined;
  if (check === 'key' || check === 'key is accepted') return `key:${subject}`;
  return check === 'user path' ? `user:${subject}` : `virtual-model:${subject}`;
}
