/** The active workflows, and where the log has every version. */
import { z } from 'zod';
import {
  virtualModelRemoved,
  virtualModelSaved,
  workflowCreated,
  workflowDeactivated,
} from '../events/catalogue/workflow.ts';
import { idOf } from '../events/event.ts';
import { isObject } from '../json/is-object.ts';
import { isA, type Projection } from './projection.ts';

// The virtual models that administrators created.

/** It is replaced, never changed. */
interface VirtualModelRecord {
  readonly model: z.infer<typeof virtualModelSaved.data>;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of the newest event of its stream. */
  readonly revision: number;
}

export interface VirtualModelsState {
  readonly bySource: Map<string, VirtualModelRecord>;
  /** Changes with each change of the virtual models. */
  version: number;
}

export const virtualModelsView: Projection<VirtualModelsState> = {
  name: 'virtual-models',
  version: 1,
  filter: { types: ['virtual_model.'] },
  initial: () => ({ bySource: new Map(), version: 0 }),
  apply(state, event) {
    if (isA(event, virtualModelSaved)) {
      const { source } = event.data;
      const updatedAt = Math.floor(event.at);
      const createdAt = state.bySource.get(source)?.createdAt ?? updatedAt;
      state.bySource.set(source, { model: event.data, createdAt, updatedAt, revision: Number(event.revision) });
      state.version += 1;
    } else if (isA(event, virtualModelRemoved)) {
      if (state.bySource.delete(event.data.source)) state.version += 1;
    }
    return state;
  },
  save: ({ bySource }) => [...bySource.values()],
  load(saved) {
    const state = virtualModelsView.initial();
    if (!Array.isArray(saved)) throw new Error('it is not a list of virtual models');
    for (const record of saved) {
      if (!isRecord(record)) throw new Error('a saved virtual model has an unknown format');
      state.bySource.set(record.model.source, record);
    }
    state.version = state.bySource.size;
    return state;
  },
};

function isRecord(value: unknown): value is VirtualModelRecord {
  if (typeof value !== 'object' || value === null || !('model' in value)) return false;
  const { model } = value;
  if (typeof model !== 'object' || model === null) return false;
  return 'source' in model && typeof model.source === 'string' && 'targets' in model && Array.isArray(model.targets);
}

/** The active version of a scope. It is replaced, never changed. */
const record = z.object({
  // Not parsed: an event of a newer build keeps the members that this one does not know.
  workflow: z.custom<z.infer<typeof workflowCreated.data>>(isObject),
  createdAt: z.number().describe('milliseconds since the epoch'),
  revision: z.number().describe('of its event'),
});
type WorkflowRecord = z.infer<typeof record>;

/** Where the log has a version: the key of its scope, and the revision of its event. */
interface VersionPlaceRecord {
  readonly key: string;
  readonly revision: number;
}

export interface WorkflowsState {
  /** By the key of the scope. */
  readonly active: Map<string, WorkflowRecord>;
  /** By the id of the version. */
  readonly places: Map<string, VersionPlaceRecord>;
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
