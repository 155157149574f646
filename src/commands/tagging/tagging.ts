/** The request headers that administrators convert to labels. Pure. */
import { taggingChanged } from '../../events/catalogue/tagging.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import type { Refusal } from '../refusal.ts';
import { checkedRules, type TaggingRule } from './tagging-rules.ts';

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
