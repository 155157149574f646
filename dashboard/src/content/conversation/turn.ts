/** A conversation as it is displayed: what each role said, called, returned or sent. */
import type { JsonNode } from '../json/json-document.ts';
import type { JsonPath } from '../json/json-path.ts';

export type Dialect = 'chat' | 'responses' | 'messages' | 'completions' | 'embeddings';

/** Media in recorded content. Only data that is part of the record is displayed; a URL is shown as text. */
export type Media =
  | { readonly kind: 'data'; readonly mediaType: string; readonly base64: string }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly id: string }
  | { readonly kind: 'none' };

export type Part =
  | { readonly kind: 'text' | 'reasoning' | 'refusal'; readonly text: string }
  /** Reasoning of which only an encrypted form or a signature is recorded. */
  | { readonly kind: 'hidden reasoning'; readonly characters: number }
  | {
      readonly kind: 'tool call';
      readonly id: string | undefined;
      readonly name: string;
      /** As recorded: usually JSON. */
      readonly arguments: string;
    }
  | {
      readonly kind: 'tool result';
      readonly callId: string | undefined;
      readonly failed: boolean;
      readonly parts: readonly Part[];
    }
  | {
      readonly kind: 'image' | 'audio' | 'file';
      readonly media: Media;
      readonly name: string | undefined;
      readonly transcript?: string;
    }
  /** What the gateway's dashboard has no form for. */
  | { readonly kind: 'json'; readonly label: string; readonly node: JsonNode };

export interface PlacedPart {
  readonly part: Part;
  /** In the request or in the JSON answer; undefined for parts assembled from a stream. */
  readonly path: JsonPath | undefined;
}

export interface NamedNode {
  readonly name: string;
  readonly node: JsonNode;
}

export interface Turn {
  readonly origin: 'request' | 'answer';
  /** As recorded, so any text; `error` for an error of the provider or the gateway. */
  readonly role: string;
  readonly name: string | undefined;
  /** Of several answers to one request, from 0. */
  readonly choice: number | undefined;
  readonly parts: readonly PlacedPart[];
  /** Why the answer ended, as recorded: `stop`, `tool_use`, `incomplete`. */
  readonly ending: string | undefined;
  /** Members of the message that are not displayed otherwise. */
  readonly others: readonly NamedNode[];
}

export interface Conversation {
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  /** Members of the request beside messages and tools: model, temperature and so on. */
  readonly settings: readonly NamedNode[];
  /** Members of the answer beside its content: id, model, usage and so on. */
  readonly answer: readonly NamedNode[];
  /** What could not be read, in sentences. */
  readonly problems: readonly string[];
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly node: JsonNode;
}
