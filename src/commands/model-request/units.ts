/** Counted by the gateway, in place of what a provider did not report. */
export interface EstimatedTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a request asks for that is not counted in tokens. */
export interface Units {
  /** Of a text that is to be spoken. */
  readonly inputCharacters?: number | undefined;
  readonly outputImages?: number | undefined;
}
