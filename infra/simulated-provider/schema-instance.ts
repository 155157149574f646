/** A value that satisfies a JSON Schema, for the keywords that function parameters and `response_format` use. */
import { isObject, type Json, type JsonObject, listIn, numberIn, textIn } from './json.ts';
import { hashOf, randomNumbers, wordFor } from './words.ts';

export interface InstanceOptions {
  readonly seed: number;
  /** Values from the prompt for string members that name a place or an object. */
  readonly subject?: string;
}

const SUBJECT_MEMBERS = /city|location|place|town|country|subject|topic|name|query/i;
/** A schema may refer to itself; past this depth optional members and items are left out. */
const MAX_DEPTH = 8;

export function instanceOf(schema: Json | undefined, options: InstanceOptions): Json {
  return build(schema, { root: schema, options, next: randomNumbers(options.seed) }, '', 0);
}

interface Building {
  readonly root: Json | undefined;
  readonly options: InstanceOptions;
  readonly next: () => number;
}

function build(schema: Json | undefined, building: Building, member: string, depth: number): Json {
  if (!isObject(schema)) return {};
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[building.next() % schema.enum.length] ?? null;
  const reference = textIn(schema.$ref);
  if (reference !== undefined) return build(resolve(reference, building.root), building, member, depth + 1);
  for (const choices of [listIn(schema.anyOf), listIn(schema.oneOf)]) {
    const simplest = choices.find((choice) => isObject(choice) && choice.type !== 'null') ?? choices[0];
    const choice =
      depth > MAX_DEPTH ? (choices.find((each) => isObject(each) && each.type === 'null') ?? simplest) : simplest;
    if (choice !== undefined) return build(merge(schema, choice), building, member, depth + 1);
  }
  const parts = listIn(schema.allOf);
  if (parts.length > 0) {
    const { allOf: _, ...rest } = schema;
    return build(parts.reduce(merge, rest), building, member, depth + 1);
  }
  switch (typeOf(schema)) {
    case 'object':
      return objectFor(schema, building, depth);
    case 'array':
      return arrayFor(schema, building, member, depth);
    case 'integer':
    case 'number':
      return numberFor(schema, building);
    case 'boolean':
      return building.next() % 2 === 0;
    case 'null':
      return null;
    default:
      return stringFor(schema, building, member);
  }
}

function typeOf(schema: JsonObject): string {
  const { type } = schema;
  if (typeof type === 'string') return type;
  const listed = listIn(type).find((each) => each !== 'null');
  if (typeof listed === 'string') return listed;
  if (schema.properties !== undefined) return 'object';
  if (schema.items !== undefined) return 'array';
  return 'string';
}

function merge(left: Json, right: Json): Json {
  if (!isObject(left) || !isObject(right)) return right;
  const { anyOf: _, oneOf: __, ...base } = left;
  return {
    ...base,
    ...right,
    ...(isObject(base.properties) && isObject(right.properties)
      ? { properties: { ...base.properties, ...right.properties } }
      : {}),
    ...(Array.isArray(base.required) && Array.isArray(right.required)
      ? { required: [...base.required, ...right.required] }
      : {}),
  };
}

function resolve(reference: string, root: Json | undefined): Json | undefined {
  let found = root;
  for (const step of reference.replace(/^#\/?/, '').split('/')) {
    if (step === '') continue;
    const name = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    found = isObject(found) ? found[name] : undefined;
  }
  return found;
}

/** The required members; all of them when none is required, so that the object is not empty. */
function objectFor(schema: JsonObject, building: Building, depth: number): Json {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = listIn(schema.required).filter((name) => typeof name === 'string');
  const names = required.length > 0 ? required : depth > MAX_DEPTH ? [] : Object.keys(properties);
  const object: JsonObject = {};
  for (const name of names) object[name] = build(properties[name] ?? {}, building, name, depth + 1);
  return object;
}

function arrayFor(schema: JsonObject, building: Building, member: string, depth: number): Json {
  const fixed = listIn(schema.prefixItems);
  const least = numberIn(schema.minItems) ?? (depth > MAX_DEPTH ? 0 : 1);
  const length = Math.min(Math.max(least, fixed.length), numberIn(schema.maxItems) ?? Number.POSITIVE_INFINITY);
  const singular = member.replace(/s$/, '');
  return Array.from({ length }, (_, i) =>
    build(fixed[i] ?? schema.items ?? { type: 'string' }, building, singular, depth + 1),
  );
}

function numberFor(schema: JsonObject, building: Building): number {
  const step =
    numberIn(schema.multipleOf) ?? (schema.type === 'number' && schema.maximum !== undefined ? undefined : 1);
  const above = numberIn(schema.exclusiveMinimum);
  const below = numberIn(schema.exclusiveMaximum);
  const minimum = numberIn(schema.minimum) ?? (above === undefined ? undefined : above + (step ?? 1e-6));
  const maximum = numberIn(schema.maximum) ?? (below === undefined ? undefined : below - (step ?? 1e-6));
  const low = minimum ?? Math.min(1, maximum ?? 1);
  const high = maximum ?? low + 40;
  if (step === undefined) return low + ((high - low) * (building.next() % 101)) / 100;
  const first = Math.ceil(low / step);
  const last = Math.max(first, Math.floor(high / step));
  return (first + (building.next() % (last - first + 1))) * step;
}

const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-15',
  'date-time': '2026-01-15T09:30:00Z',
  time: '09:30:00Z',
  duration: 'PT15M',
  email: 'ada@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  uuid: '0193a1b2-0000-7000-8000-000000000001',
};

function stringFor(schema: JsonObject, building: Building, member: string): string {
  const formatted = FORMATS[textIn(schema.format) ?? ''];
  if (formatted !== undefined) return formatted;
  const { subject, seed } = building.options;
  let text = subject !== undefined && SUBJECT_MEMBERS.test(member) ? subject : wordFor(hashOf(member, seed));
  const least = numberIn(schema.minLength) ?? 0;
  while (text.length < least) text += ` ${wordFor(building.next())}`;
  return text.slice(0, numberIn(schema.maxLength) ?? text.length);
}
