/**
 * The parts of a message: OpenAI Chat Completions and Responses, Anthropic Messages. Their types have different names or
 * the same meaning, so one function reads all of them. A type it does not know stays JSON.
 */
import {
  childCountOf,
  childrenOf,
  elementsOf,
  type JsonNode,
  kindOf,
  memberOf,
  nameOf,
  scalarOf,
  sourceOf,
  stringOf,
} from '../json/json-document.ts';
import { type JsonPath, pathOf } from '../json/json-path.ts';
import type { Media, NamedNode, Part, PlacedPart } from './turn.ts';

/** Text, or a list of parts; null and nothing are no parts. */
export function contentParts(content: JsonNode | undefined): PlacedPart[] {
  if (content === undefined || kindOf(content) === 'null') return [];
  if (kindOf(content) === 'string')
    return [{ part: { kind: 'text', text: stringOf(content) ?? '' }, path: pathOf(content) }];
  if (kindOf(content) === 'array') return partsOfList(content);
  return placed(partsOf(content), pathOf(content));
}

const MAX_PARTS = 1_000;

/** At most a thousand parts; a longer list follows as JSON. */
function partsOfList(content: JsonNode): PlacedPart[] {
  const parts: PlacedPart[] = [];
  for (const child of childrenOf(content)) {
    if (parts.length >= MAX_PARTS) {
      const label = `all ${childCountOf(content)} parts`;
      return [...parts, { part: { kind: 'json', label, node: content }, path: pathOf(content) }];
    }
    parts.push(...placed(partsOf(child), pathOf(child)));
  }
  return parts;
}

function placed(parts: readonly Part[], path: JsonPath): PlacedPart[] {
  return parts.map((part) => ({ part, path }));
}

function unplaced(content: JsonNode | undefined): Part[] {
  return contentParts(content).map(({ part }) => part);
}

export function partsOf(node: JsonNode): Part[] {
  if (kindOf(node) === 'string') return [{ kind: 'text', text: stringOf(node) ?? '' }];
  const type = stringOf(memberOf(node, 'type')) ?? '';
  const read = readers[type];
  return read?.(node) ?? [jsonPart(type, node)];
}

function jsonPart(type: string, node: JsonNode): Part {
  return { kind: 'json', label: type === '' ? kindOf(node) : type, node };
}

type Reader = (node: JsonNode) => Part[] | undefined;

const text: Reader = (node) => {
  const value = stringOf(memberOf(node, 'text'));
  if (value === undefined) return undefined;
  const part: Part = { kind: 'text', text: value };
  const annotations = memberOf(node, 'annotations') ?? memberOf(node, 'citations');
  return elementsOf(annotations).length === 0 || annotations === undefined
    ? [part]
    : [part, jsonPart('annotations', annotations)];
};

const reasoning: Reader = (node) => textPart('reasoning', memberOf(node, 'text'));

function textPart(kind: 'text' | 'reasoning' | 'refusal', node: JsonNode | undefined): Part[] | undefined {
  const value = stringOf(node);
  return value === undefined ? undefined : [{ kind, text: value }];
}

const toolUse: Reader = (node) => {
  const input = memberOf(node, 'input');
  return [
    {
      kind: 'tool call',
      id: stringOf(memberOf(node, 'id')),
      name: stringOf(memberOf(node, 'name')) ?? '',
      arguments: input === undefined ? '' : sourceOf(input),
    },
  ];
};

const toolResult: Reader = (node) => [
  {
    kind: 'tool result',
    callId: stringOf(memberOf(node, 'tool_use_id')),
    failed: memberOf(node, 'is_error') !== undefined && kindOf(memberOf(node, 'is_error') ?? node) === 'true',
    parts: unplaced(memberOf(node, 'content')),
  },
];

const functionCall: Reader = (node) => [
  {
    kind: 'tool call',
    id: stringOf(memberOf(node, 'call_id')) ?? stringOf(memberOf(node, 'id')),
    name: stringOf(memberOf(node, 'name')) ?? '',
    arguments: stringOf(memberOf(node, 'arguments')) ?? stringOf(memberOf(node, 'input')) ?? '',
  },
];

const functionOutput: Reader = (node) => [
  {
    kind: 'tool result',
    callId: stringOf(memberOf(node, 'call_id')),
    failed: false,
    parts: unplaced(memberOf(node, 'output')),
  },
];

/** A summary, content, and what is encrypted. */
const reasoningItem: Reader = (node) => {
  const texts = [...elementsOf(memberOf(node, 'summary')), ...elementsOf(memberOf(node, 'content'))];
  return [
    ...texts.flatMap((one) => reasoning(one) ?? partsOf(one)),
    ...hiddenReasoning(memberOf(node, 'encrypted_content')),
  ];
};

function hiddenReasoning(node: JsonNode | undefined): Part[] {
  const value = stringOf(node);
  return value === undefined ? [] : [{ kind: 'hidden reasoning', characters: value.length }];
}

const readers: Readonly<Record<string, Reader>> = {
  text,
  input_text: text,
  output_text: text,
  summary_text: reasoning,
  reasoning_text: reasoning,
  refusal: (node) => textPart('refusal', memberOf(node, 'refusal')),
  thinking: (node) => [
    ...(textPart('reasoning', memberOf(node, 'thinking')) ?? []).filter(
      (part) => part.kind !== 'reasoning' || part.text !== '',
    ),
    ...hiddenReasoning(memberOf(node, 'signature')),
  ],
  redacted_thinking: (node) => hiddenReasoning(memberOf(node, 'data')),
  image_url: (node) => mediaPart('image', urlMedia(memberOf(node, 'image_url')), undefined),
  input_image: (node) =>
    mediaPart('image', either(urlMedia(memberOf(node, 'image_url')), fileMedia(memberOf(node, 'file_id'))), undefined),
  image: (node) => mediaPart('image', sourceMedia(memberOf(node, 'source')), undefined),
  document: (node) => {
    const source = memberOf(node, 'source');
    const title = stringOf(memberOf(node, 'title'));
    const plain = stringOf(memberOf(source, 'type')) === 'text' ? stringOf(memberOf(source, 'data')) : undefined;
    if (plain !== undefined)
      return [...mediaPart('file', { kind: 'none' }, title ?? 'text document'), { kind: 'text', text: plain }];
    const media = sourceMedia(source);
    return media.kind === 'none' ? undefined : mediaPart('file', media, title);
  },
  input_audio: (node) => {
    const audio = memberOf(node, 'input_audio');
    const base64 = stringOf(memberOf(audio, 'data'));
    const format = stringOf(memberOf(audio, 'format')) ?? 'unknown format';
    return base64 === undefined
      ? undefined
      : mediaPart('audio', { kind: 'data', mediaType: `audio/${format}`, base64 }, undefined);
  },
  file: (node) => filePart(memberOf(node, 'file')),
  input_file: (node) => filePart(node),
  tool_use: toolUse,
  server_tool_use: toolUse,
  mcp_tool_use: toolUse,
  tool_result: toolResult,
  mcp_tool_result: toolResult,
  function_call: functionCall,
  custom_tool_call: functionCall,
  function_call_output: functionOutput,
  custom_tool_call_output: functionOutput,
  reasoning: reasoningItem,
  image_generation_call: (node) => {
    const base64 = stringOf(memberOf(node, 'result'));
    return base64 === undefined
      ? undefined
      : mediaPart('image', { kind: 'data', mediaType: 'image/png', base64 }, undefined);
  },
};

function mediaPart(kind: 'image' | 'audio' | 'file', media: Media, name: string | undefined): Part[] {
  return [{ kind, media, name }];
}

function filePart(node: JsonNode | undefined): Part[] {
  const data = dataMedia(stringOf(memberOf(node, 'file_data')));
  const url = stringOf(memberOf(node, 'file_url'));
  const media = either(
    data,
    either(fileMedia(memberOf(node, 'file_id')), url === undefined ? { kind: 'none' } : { kind: 'url', url }),
  );
  return mediaPart('file', media, stringOf(memberOf(node, 'filename')));
}

function either(first: Media, second: Media): Media {
  return first.kind === 'none' ? second : first;
}

function fileMedia(node: JsonNode | undefined): Media {
  const id = stringOf(node);
  return id === undefined ? { kind: 'none' } : { kind: 'file', id };
}

/** A string, or an object with a `url`. */
function urlMedia(node: JsonNode | undefined): Media {
  const url = stringOf(node) ?? stringOf(memberOf(node, 'url'));
  if (url === undefined) return { kind: 'none' };
  const data = dataMedia(url);
  return data.kind === 'data' ? data : { kind: 'url', url };
}

/** The `source` of Anthropic's blocks. */
function sourceMedia(source: JsonNode | undefined): Media {
  const base64 = stringOf(memberOf(source, 'data'));
  if (base64 !== undefined) {
    return { kind: 'data', mediaType: stringOf(memberOf(source, 'media_type')) ?? 'application/octet-stream', base64 };
  }
  return either(urlMedia(memberOf(source, 'url')), fileMedia(memberOf(source, 'file_id')));
}

function dataMedia(value: string | undefined): Media {
  const comma = value?.slice(0, 200).indexOf(',') ?? -1;
  const match =
    value === undefined || comma < 0 ? null : /^data:([\w.+/-]*)(?:;[\w=.+-]*)*;base64$/i.exec(value.slice(0, comma));
  if (match === null || value === undefined) return { kind: 'none' };
  return { kind: 'data', mediaType: match[1] || 'text/plain', base64: value.slice(comma + 1) };
}

const MAX_OTHERS = 500;

/** The members of an object that are not in `known`, for display as JSON; at most 500. */
export function othersOf(node: JsonNode | undefined, known: readonly string[]): NamedNode[] {
  const others: NamedNode[] = [];
  if (node === undefined || kindOf(node) !== 'object') return others;
  for (const child of childrenOf(node)) {
    const name = nameOf(child) ?? '';
    if (!known.includes(name) && !isEmpty(child)) others.push({ name, node: child });
    if (others.length === MAX_OTHERS) break;
  }
  return others;
}

function isEmpty(node: JsonNode): boolean {
  const kind = kindOf(node);
  return kind === 'null' || ((kind === 'array' || kind === 'object') && node.document.childCounts[node.index] === 0);
}

/** The error of an answer, in any of the dialects: its message, or the whole as JSON. */
export function errorParts(error: JsonNode): PlacedPart[] {
  const message = scalarOf(error) ?? stringOf(memberOf(error, 'message'));
  return message === undefined
    ? [{ part: { kind: 'json', label: 'error', node: error }, path: pathOf(error) }]
    : [{ part: { kind: 'text', text: message }, path: pathOf(error) }];
}
