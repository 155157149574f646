/** Virtual models, guardrails, and the active workflows, with where the log has every version. */
import { z } from 'zod';
import { guardrailRemoved, guardrailSaved } from '../events/catalogue/guardrail.ts';
import {
  virtualModelRemoved,
  virtualModelSaved,
  workflowCreated,
  workflowDeactivated,
} from '../events/catalogue/workflow.ts';
import { idOf } from '../events/event.ts';
import { isObject } from '../json/is-object.ts';
import { administeredView } from './administered.ts';
import { isA, type Projection } from './projection.ts';

export const virtualModelsView = administeredView({
  name: 'virtual-models',
  version: 2,
  saved: virtualModelSaved,
  removed: virtualModelRemoved,
  key: 'source',
});

export const guardrailsView = administeredView({
  name: 'guardrails',
  version: 2,
  saved: guardrailSaved,
  removed: guardrailRemoved,
  key: 'name',
});

/** The active version of a scope. It is replaced, never changed. */
const record = z.object({
  // Not parsed: an event of a newer build keeps the members that this one does not know.
  workflow: z.custom<z.infer<typeof workflowCreated.data>>(isObject),
  createdAt: z.number().describe('milliseconds since the epoch'),
  revision: z.number().describe('of its event'),
});
export type WorkflowRecord = Readonly<z.infer<typeof record>>;

/** Where the log has a version: versions that are not active are read when they are needed. */
export interface VersionPlace {
  /** Of its scope. */
  readonly key: string;
  readonly revision: number;
}

export interface WorkflowsState {
  /** By the key of the scope. */
  readonly active: Map<string, WorkflowRecord>;
  /** By the id of the version. */
  readonly places: Map<string, VersionPlace>;
  /** Changes with each change of a workflow. */
  version: number;
}

const saved = z.object({
  active: z.array(z.tuple([z.string(), record])),
  places: z.array(z.tuple([z.string(), z.string(), z.number()])),
});

export const workflowsView: Projection<WorkflowsState> = {
  name: 'workflows',
  version: 1,
  filter: { types: ['workflow.'] },
  initial: () => ({ active: new Map(), places: new Map(), version: 0 }),
  apply(state, event) {
    const key = idOf(event.stream);
    if (isA(event, workflowCreated)) {
      const revision = Number(event.revision);
      state.active.set(key, { workflow: event.data, createdAt: Math.floor(event.at), revision });
      state.places.set(event.data.id, { key, revision });
      state.version += 1;
    } else if (isA(event, workflowDeactivated) && state.active.get(key)?.workflow.id === event.data.id) {
      state.active.delete(key);
      state.version += 1;
    }
    return state;
  },
  save: ({ active, places }) => ({
    active: [...active],
    places: [...places].map(([id, { key, revision }]) => [id, key, revision]),
  }),
  load(given) {
    const { active, places } = saved.parse(given);
    return {
      active: new Map(active),
      places: new Map(places.map(([id, key, revision]) => [id, { key, revision }])),
      version: places.length,
    };
  },
};
