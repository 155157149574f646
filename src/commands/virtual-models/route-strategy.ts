/**
 * A strategy that selects the target of a virtual model which is called first. It gets plain values and returns plain
 * values, so that it can run in another process.
 */

/** A field of the editor of virtual models, as `GET /admin/plugins` returns it. */
export interface RouteField {
  readonly key: string;
  readonly label: string;
  readonly input: 'text' | 'textarea' | 'number' | 'select';
  readonly required: boolean;
  readonly help?: string;
  readonly placeholder?: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
  readonly scope: 'route';
}

export type RouteConfig = Readonly<Record<string, unknown>>;

/** A configuration that was validated and completed, or why it is invalid. */
export type ReadRouteConfig =
  | { readonly ok: true; readonly config: RouteConfig }
  | {
      readonly ok: false;
      readonly problem: string;
      /** The key at fault, when it is known. */
      readonly key?: string;
    };

/** What is known about a target when it is selected. */
export interface RouteTarget {
  readonly provider: string;
  readonly model: string;
  readonly weight: number;
  /** US dollars for a million input and a million output tokens; null when the price is unknown. */
  readonly price: number | null;
  /** False only when no target is healthy. */
  readonly healthy: boolean;
  /** Share of failed calls in the last minute, from 0 to 1. Fewer than five calls count as five. */
  readonly errorRate: number;
  /** Expected milliseconds to the first byte; null when it was not measured in the last five minutes. */
  readonly latencyMs: number | null;
}

export interface RouteQuestion {
  /** The model as the client wrote it. */
  readonly selector: string;
  /** The virtual model whose target is selected. */
  readonly virtualModel: string;
  readonly userPath: string | null;
  readonly labels: readonly string[];
  readonly sessionId: string | null;
  readonly stream: boolean;
  /** At least two, in the declared order: the healthy ones, or all of them when none is healthy. */
  readonly targets: readonly RouteTarget[];
}

export interface RouteSelection {
  /** The place in `targets` of the target to call first. */
  readonly index: number;
  /** One line that explains the selection; recorded with the request, at most 200 characters. */
  readonly reason?: string;
}

export interface RouteStrategy {
  /** Letters, digits, `_`, `-` and `.`. */
  readonly name: string;
  readonly label: string;
  readonly description: string;
  readonly routeFields: readonly RouteField[];
  /** The plugin that it comes from. Undefined: built in. */
  readonly source?: string;
  readConfig(config: RouteConfig): ReadRouteConfig;
  /**
   * A selection that takes more than 250 ms, throws, or has an unknown index is replaced by weighted round robin.
   * A strategy that returns no promise adds no wait to the request.
   * @param config as `readConfig` returned it
   * @param signal aborted when the selection is no longer needed
   */
  select(config: RouteConfig, question: RouteQuestion, signal: AbortSignal): RouteSelection | Promise<RouteSelection>;
}
