/** A virtual model or an access policy as the form edits it. Pure. */
import type { FormValue } from '../../ui/schema-fields.ts';
import { linesOf } from '../../ui/schema-fields.ts';
import { targetOf, targetText } from './targets.ts';
import type { VirtualModelRow } from './types.ts';

export interface DraftTarget {
  /** Identity of the row of the form. */
  readonly key: number;
  /** `<provider>/<model>`, a model, or a virtual model. */
  readonly text: string;
  readonly weight: number | undefined;
}

export interface FailoverRules {
  readonly statuses?: readonly number[] | undefined;
  readonly phrases?: readonly string[] | undefined;
}

export interface VirtualModelDraft {
  readonly kind: 'redirect' | 'policy';
  readonly source: string;
  readonly targets: readonly DraftTarget[];
  /** A strategy, or `plugin:<name>`. */
  readonly strategy: string;
  readonly strategyConfig: FormValue;
  readonly sessionAffinity: boolean;
  readonly failover: boolean;
  /** Members of `failover` beside `enabled`, as they were. */
  readonly failoverRules: FailoverRules;
  /** Numbers. Empty: those of the gateway. */
  readonly failoverStatuses: string;
  /** One per line. Empty: those of the gateway. */
  readonly failoverPhrases: string;
  /** One per line. */
  readonly userPaths: string;
  readonly description: string;
  readonly enabled: boolean;
}

export function emptyDraft(kind: VirtualModelDraft['kind']): VirtualModelDraft {
  return {
    ...{ kind, source: '', strategy: 'failover', strategyConfig: {}, sessionAffinity: true, failover: true },
    ...{ failoverRules: {}, failoverStatuses: '', failoverPhrases: '', userPaths: '', description: '', enabled: true },
    targets: kind === 'redirect' ? [{ key: 0, text: '', weight: undefined }] : [],
  };
}

export function draftOf(row: VirtualModelRow): VirtualModelDraft {
  const { failover = true } = row;
  const { enabled: fails, ...rules }: FailoverRules & { readonly enabled: boolean } =
    typeof failover === 'boolean' ? { enabled: failover } : failover;
  return {
    kind: row.kind,
    source: row.source,
    targets: (row.targets ?? []).map((target, key) => ({ key, text: targetText(target), weight: target.weight })),
    strategy: row.strategy === 'plugin' ? `plugin:${row.strategy_plugin ?? ''}` : (row.strategy ?? 'round_robin'),
    strategyConfig: row.strategy_config ?? {},
    sessionAffinity: row.session_affinity ?? true,
    failover: fails,
    failoverRules: rules,
    failoverStatuses: (rules.statuses ?? []).join(', '),
    failoverPhrases: (rules.phrases ?? []).join('\n'),
    userPaths: row.user_paths.join('\n'),
    description: row.description ?? '',
    enabled: row.enabled,
  };
}

/** Whether a strategy reads the weights of targets. Route strategies do when they cannot select. */
export function usesWeights(strategy: string): boolean {
  return strategy === 'round_robin' || strategy.startsWith('plugin:');
}

export function withNewTarget(targets: readonly DraftTarget[]): readonly DraftTarget[] {
  return [...targets, { key: Math.max(-1, ...targets.map(({ key }) => key)) + 1, text: '', weight: undefined }];
}

/** The targets with one of them moved by one place. */
export function movedTarget(targets: readonly DraftTarget[], place: number, by: -1 | 1): readonly DraftTarget[] {
  const [one, other] = [targets[place], targets[place + by]];
  if (one === undefined || other === undefined) return targets;
  return targets.with(place, other).with(place + by, one);
}

/** The body of `PUT /admin/virtual-models`. @param providers names and types of providers */
export function bodyOf(draft: VirtualModelDraft, providers: ReadonlySet<string>) {
  const { kind, source, strategy, strategyConfig, failover } = draft;
  const common = {
    source: source.trim(),
    user_paths: linesOf(draft.userPaths),
    enabled: draft.enabled,
    ...(draft.description.trim() === '' ? {} : { description: draft.description.trim() }),
  };
  if (kind === 'policy') return common;
  const rules = failoverRulesOf(draft);
  const hasRules = Object.keys(rules).length > 0;
  return {
    ...common,
    targets: draft.targets.map(({ text, weight }) => ({
      ...targetOf(text, providers),
      ...(weight === undefined || !usesWeights(strategy) ? {} : { weight }),
    })),
    strategy,
    ...(strategy.startsWith('plugin:') ? { strategy_config: strategyConfig } : {}),
    session_affinity: draft.sessionAffinity,
    failover: hasRules ? { enabled: failover, ...rules } : failover,
  };
}

/** An empty field keeps an empty list, and is otherwise omitted. What is not a number is sent, so that the gateway names it. */
function failoverRulesOf({ failoverRules, failoverStatuses, failoverPhrases }: VirtualModelDraft) {
  const words = failoverStatuses.split(/[\s,]+/).filter((word) => word !== '');
  const statuses = words.map((word) => (/^\d+$/.test(word) ? Number(word) : word)) as number[];
  const phrases = linesOf(failoverPhrases);
  return {
    ...(statuses.length > 0 || failoverRules.statuses?.length === 0 ? { statuses } : {}),
    ...(phrases.length > 0 || failoverRules.phrases?.length === 0 ? { phrases } : {}),
  };
}
