/** The request headers that administrators convert to labels. Pure. */
import { taggingChanged } from '../../events/catalogue/access.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { isCredentialHeader } from '../header-names.ts';
import { type Refusal, refusals } from '../refusal.ts';

/** A rule that converts a request header to labels, and the limits of such rules. */
export interface TaggingRule {
  /** Lower case. */
  readonly header: string;
  /** Removed from the beginning of each label. */
  readonly prefix: string;
  readonly delimiter: string;
  /** Whether the header is not forwarded to providers. */
  readonly doNotPass: boolean;
}

/** Bounds the work per request. */
const MAX_RULES = 50;

/** Undefined when the rules are valid. */
export function checkedRules(rules: readonly TaggingRule[], managed: ReadonlySet<string>): Refusal | undefined {
  if (rules.length > MAX_RULES) return refusals.invalidRequest(`There can be at most ${MAX_RULES} rules.`, 'headers');
  const seen = new Set<string>();
  for (const [place, { header }] of rules.entries()) {
    const param = `headers.${place}.header`;
    if (isCredentialHeader(header)) {
      // Many users may read labels.
      return refusals.invalidRequest(`'${header}' holds credentials, which must not become labels.`, param);
    }
    if (managed.has(header)) {
      return refusals.invalidRequest(
        `The rule for '${header}' is declared in the configuration and can be changed only there.`,
        param,
      );
    }
    if (seen.has(header)) return refusals.invalidRequest(`There are two rules for '${header}'.`, param);
    seen.add(header);
  }
  return undefined;
}

export interface SetTagging {
  readonly rules: readonly TaggingRule[];
  /** The headers of the configuration's own rules, which cannot be set here. */
  readonly managed: ReadonlySet<string>;
  readonly context: EventContext;
}

export const taggingStream: StreamName = streamName('settings', 'tagging');

export const taggingDecider: Decider<readonly TaggingRule[], SetTagging> = {
  initial: [],
  dependsOn: 'its stream',
  decide,
  evolve,
};

function decide({ rules, managed, context }: SetTagging, state: readonly TaggingRule[]): readonly NewEvent[] | Refusal {
  const refused = checkedRules(rules, managed);
  if (refused !== undefined) return refused;
  if (JSON.stringify(rules.map(flat)) === JSON.stringify(state.map(flat))) return [];
  return [taggingChanged.create({ headers: [...rules] }, context)];
}

function flat({ header, prefix, delimiter, doNotPass }: TaggingRule) {
  return [header, prefix, delimiter, doNotPass];
}

function evolve(state: readonly TaggingRule[], event: DecidedEvent): readonly TaggingRule[] {
  return event.type === taggingChanged.type ? taggingChanged.data.parse(event.data).headers : state;
}
