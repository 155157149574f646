/** Tokens counted by the gateway when a provider did not report them. */
export interface EstimatedTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** The units of a request that are not tokens. */
export interface Units {
  /** Characters of text to be spoken. */
  readonly inputCharacters?: number | undefined;
  readonly outputImages?: number | undefined;
}
