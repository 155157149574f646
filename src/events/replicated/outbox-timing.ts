/** Times, in milliseconds, after which a replicated log gives something up. */
export interface OutboxTiming {
  /** How long an append may wait to be sent. It is then refused; nothing of it was recorded. */
  readonly queueTimeoutMs: number;
  /** How long an append that was sent may wait until it is read back. Its outcome is then unknown. */
  readonly outcomeTimeoutMs: number;
  /**
   * Appends are refused when the engine does not acknowledge a sent one, or does not return an acknowledged one, for so
   * long, and a second longer for each MiB that is on its way. They are accepted again when a test took less.
   */
  readonly stalledMs: number;
  /** Reading begins anew when an acknowledged append is not read back, nor anything else read, for so long. */
  readonly stalledReadMs: number;
  /** Delay before the engine is tried again. */
  readonly retryMs: number;
}
