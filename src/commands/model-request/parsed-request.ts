/** The body of a model request, as its dialect reads it. */
import type { Refusal } from '../refusal.ts';

/** The provider that a refused request named. */
interface ProviderName {
  readonly name: string;
  readonly type: string;
}

/** A request body, parsed once. */
export interface ParsedRequest {
  /** The selector as the client wrote it; empty when no model is called. */
  readonly model: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly stream: boolean;
  readonly json: Record<string, unknown>;
}

export type ReadResult =
  | { readonly ok: true; readonly parsedRequest: ParsedRequest }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** What is known of the request, to be recorded with the refusal. */
      readonly known?: { readonly parsedRequest: ParsedRequest; readonly provider: ProviderName | undefined };
    };
