/** The messages between the gateway and the process of a plugin. */
import type { ChatAnswer, ChatCall, HookContext } from '../api/plugin.ts';
import type { JsonBounds } from './json-bounds.ts';

export const hookNames = ['request', 'prompt', 'response', 'stream', 'route', 'complete'] as const;
export type HookName = (typeof hookNames)[number];

/** The facts of a hook's context that are data. */
export type CallContext = Pick<HookContext, 'requestId' | 'userPath' | 'model' | 'provider' | 'labels'>;

export interface CallMessage {
  readonly t: 'call';
  /** Ascending; never used twice. */
  readonly id: number;
  readonly hook: HookName;
  readonly input: unknown;
  readonly context: CallContext;
  readonly config: unknown;
}

export type ToPlugin =
  | CallMessage
  /** The result is no longer needed. Acknowledged with `cancelled` unless the call has ended meanwhile. */
  | { readonly t: 'cancel'; readonly id: number }
  | { readonly t: 'chat'; readonly id: number; readonly chat: number; readonly answer: ChatAnswer }
  | { readonly t: 'chat'; readonly id: number; readonly chat: number; readonly error: string };

export type FromPlugin =
  | { readonly t: 'ready'; readonly manifest: unknown }
  /** The plugin cannot be loaded. */
  | { readonly t: 'failed'; readonly error: string }
  | { readonly t: 'result'; readonly id: number; readonly value?: unknown }
  | { readonly t: 'error'; readonly id: number; readonly message: string }
  | { readonly t: 'cancelled'; readonly id: number }
  | { readonly t: 'chat'; readonly id: number; readonly chat: number; readonly request: ChatCall };

/** Largest message in bytes, so that parsing one does not hold up the gateway. */
export const MAX_TO_PLUGIN = 16 * 1024 * 1024;
export const MAX_FROM_PLUGIN = 4 * 1024 * 1024;
/** Of a message of a plugin, for the same reason. */
export const BOUNDS_FROM_PLUGIN: JsonBounds = { depth: 64, values: 20_000 };

/** What the process of a plugin gets on its command line. */
export interface ChildOptions {
  /** URL of the plugin's module. */
  readonly entry: string;
  /** URL of `chancery/plugin`. */
  readonly api: string;
  /** Limit of resident memory. */
  readonly memoryBytes: number;
  /** The process that started it, with which it ends. */
  readonly gatewayPid: number;
}

/** File descriptors of the child. */
export const PROTOCOL_FD = 3;
export const WATCHDOG_FD = 4;
