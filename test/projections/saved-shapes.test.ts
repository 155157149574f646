/**
 * The shape of a snapshot is not checked when it is read, only its version and checksum. `saved-shapes.json` has the shape
 * that each read model saves under its version; a change of the shape needs another version.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { catalogue } from '../../src/events/catalogue/catalogue.ts';
import { formatPosition, type RecordedEvent, type StreamName } from '../../src/events/event.ts';
import { CompiledFilter } from '../../src/events/log.ts';
import { adminJournal } from '../../src/projections/admin-journal.ts';
import { sharedSpendView } from '../../src/projections/budget-reservations.ts';
import { cachedAnswersView } from '../../src/projections/cached-answers.ts';
import { deferredUsageView } from '../../src/projections/deferred-usage.ts';
import { guardrailReplaysView } from '../../src/projections/guardrail-replays.ts';
import { inFlight } from '../../src/projections/in-flight.ts';
import { keysView, taggingView, usersView } from '../../src/projections/keys.ts';
import { jobsView, leasesView } from '../../src/projections/leases.ts';
import { rateLimitsView } from '../../src/projections/limits.ts';
import { mcpAuthorizationsView, mcpServersView } from '../../src/projections/mcp-servers.ts';
import { mcpToolsView } from '../../src/projections/mcp-tools.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { priceOverridesView, providerCredentialsView, providerMemory } from '../../src/projections/provider-memory.ts';
import { savedViews } from '../../src/projections/saved-views.ts';
import { spendView } from '../../src/projections/spend.ts';
import { guardrailsView, virtualModelsView, workflowsView } from '../../src/projections/workflows.ts';
import { limitedExchangesView } from '../../src/wiring/limits.ts';

const recorded: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(join(import.meta.dirname, 'saved-shapes.json'), 'utf8'),
);

type JsonSchema = z.core.JSONSchema.JSONSchema;

/** With all members, in the last pass only with the necessary ones. */
const passes = 4;
const soon = 2_000_000_000_000;

/** Data of an event with every member, so that everything that a read model keeps of it is in its state. */
function exampleOf(schema: JsonSchema | boolean | undefined, root: JsonSchema, pass: number, depth = 0): unknown {
  if (schema === undefined || typeof schema === 'boolean' || depth > 8) return '1';
  const inside = (part: unknown) => exampleOf(part as JsonSchema, root, pass, depth + 1);
  if (schema.$ref !== undefined) return inside(root.$defs?.[schema.$ref.split('/').at(-1) ?? '']);
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants !== undefined) return inside(variants[pass % variants.length]);
  if (schema.type === 'null') return null;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[pass % schema.enum.length];
  if (schema.type === 'array')
    return Array.isArray(schema.prefixItems) ? schema.prefixItems.map(inside) : [inside(schema.items)];
  if (schema.type === 'object') {
    const members = Object.entries(schema.properties ?? {})
      .filter(([name]) => pass < passes - 1 || schema.required?.includes(name))
      .map(([name, member]) => [name, name.endsWith('At') ? soon : inside(member)] as const);
    const others = schema.additionalProperties ? [['1', inside(schema.additionalProperties)] as const] : [];
    return Object.fromEntries([...members, ...others]);
  }
  if (schema.type === 'number' || schema.type === 'integer') return 1;
  return schema.type === 'boolean' ? true : '1';
}

/** Every kind of event, each several times: later ones find what earlier ones have left. */
function* historyFor({ filter }: Pick<Projection<unknown>, 'filter'>): Generator<RecordedEvent> {
  const accepts = new CompiledFilter({ types: filter.types ?? [...catalogue.keys()] });
  let position = 0;
  for (let pass = 0; pass < passes; pass++) {
    for (const { type, version, data } of catalogue.values()) {
      if (!accepts.acceptsType(type)) continue;
      const schema = z.toJSONSchema(data, { unrepresentable: 'any', io: 'output' });
      position++;
      yield {
        ...{ id: `e${position}`, type, schema: version, stream: `${type.split('.')[0]}-1` as StreamName },
        ...{
          revision: BigInt(position),
          position: formatPosition(position),
          at: 1_700_000_000_000 + position * 3_600_000,
        },
        context: { actor: 'master', userPath: '/1', requestId: '1' } as RecordedEvent['context'],
        data: exampleOf(schema, schema, pass),
        body: undefined,
      };
    }
  }
}

/** What values are, as far as they were seen: types, and the shapes of members and elements. */
class Shape {
  readonly #types = new Set<string>();
  readonly #members = new Map<string, Shape>();

  note(value: unknown): void {
    const type =
      value === null ? 'null' : typeof value === 'object' ? (value.constructor?.name ?? 'Object') : typeof value;
    this.#types.add(type);
    if (value instanceof Map) for (const pair of value) this.#noteElements('Map', pair);
    else if (value instanceof Set || Array.isArray(value)) this.#noteElements(type, value);
    else if (type === 'Object')
      for (const [name, member] of Object.entries(value as object)) this.#member(name).note(member);
  }

  /** Names that come from data are not part of the shape: the examples have the name 1. */
  #noteElements(of: string, elements: Iterable<unknown>): void {
    if (of === 'Map') for (const [at, element] of [...elements].entries()) this.#member(`[${at}]`).note(element);
    else for (const element of elements) this.#member('[]').note(element);
  }

  #member(name: string): Shape {
    const member = this.#members.get(name) ?? new Shape();
    this.#members.set(name, member);
    return member;
  }

  toString(): string {
    const members = [...this.#members]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, shape]) => `${name}: ${shape}`);
    return `${[...this.#types].toSorted().join('|')}${members.length > 0 ? ` { ${members.join(', ')} }` : ''}`;
  }
}

function shapeOf<State>(view: Projection<State>): { name: string; version: number; shape: string } {
  const shape = new Shape();
  let state = view.initial();
  for (const event of historyFor(view)) {
    state = view.apply(state, event);
    // as it is read again
    shape.note(deserialize(serialize(view.save?.(state))));
  }
  return { name: view.name, version: view.version, shape: String(shape) };
}

const shapes = [
  ...[
    shapeOf(adminJournal),
    shapeOf(cachedAnswersView(100)),
    shapeOf(deferredUsageView),
    shapeOf(guardrailReplaysView),
  ],
  ...[shapeOf(guardrailsView), shapeOf(inFlight), shapeOf(jobsView), shapeOf(keysView), shapeOf(leasesView)],
  ...[shapeOf(limitedExchangesView), shapeOf(mcpAuthorizationsView), shapeOf(mcpServersView), shapeOf(mcpToolsView)],
  ...[shapeOf(priceOverridesView), shapeOf(providerCredentialsView)],
  ...[shapeOf(providerMemory), shapeOf(rateLimitsView), shapeOf(sharedSpendView), shapeOf(spendView)],
  ...[shapeOf(taggingView), shapeOf(usersView), shapeOf(virtualModelsView), shapeOf(workflowsView)],
];

describe('what a read model saves', () => {
  it('is recorded for every one that has snapshots', () => {
    expect(shapes.map(({ name }) => name)).toEqual(expect.arrayContaining(savedViews.map(({ name }) => name)));
  });

  it.each(shapes)('has the shape that is recorded under its version: $name', ({ name, version, shape }) => {
    const key = `${name} ${version}`;
    const advice =
      recorded[key] === undefined
        ? `record in saved-shapes.json: ${JSON.stringify(key)}: ${JSON.stringify(shape)}`
        : `what ${name} saves has changed: increase its version, and record the new one`;
    expect(shape, advice).toBe(recorded[key]);
  });
});
