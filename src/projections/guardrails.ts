/** The guardrails that administrators defined. */
import { z } from 'zod';
import { guardrailRemoved, guardrailSaved } from '../events/catalogue/guardrail.ts';
import { isObject } from '../json/is-object.ts';
import { isA, type Projection } from './projection.ts';

/** It is replaced, never changed. Times are milliseconds since the epoch. */
const record = z.object({
  // Not parsed: an event of a newer build keeps the members that this one does not know.
  guardrail: z.custom<z.infer<typeof guardrailSaved.data>>(isObject),
  createdAt: z.number(),
  updatedAt: z.number(),
  revision: z.number().describe('of the newest event of its stream'),
});
type GuardrailRecord = z.infer<typeof record>;

export interface GuardrailsState {
  readonly byName: Map<string, GuardrailRecord>;
  /** Changes with each change of a guardrail. */
  version: number;
}

export const guardrailsView: Projection<GuardrailsState> = {
  name: 'guardrails',
  version: 1,
  filter: { types: [guardrailSaved.type, guardrailRemoved.type] },
  initial: () => ({ byName: new Map(), version: 0 }),
  apply(state, event) {
    if (isA(event, guardrailSaved)) {
      const { name } = event.data;
      const updatedAt = Math.floor(event.at);
      const createdAt = state.byName.get(name)?.createdAt ?? updatedAt;
      state.byName.set(name, { guardrail: event.data, createdAt, updatedAt, revision: Number(event.revision) });
      state.version += 1;
    } else if (isA(event, guardrailRemoved) && state.byName.delete(event.data.name)) {
      state.version += 1;
    }
    return state;
  },
  save: ({ byName }) => [...byName.values()],
  load(given) {
    const records = z.array(record).parse(given);
    return { byName: new Map(records.map((one) => [one.guardrail.name, one])), version: records.length };
  },
};
