export interface Outcome {
  readonly code: number | null;
  readonly output: string;
  /** The signal that this process got meanwhile and passed on to the command. */
  readonly signal: NodeJS.Signals | undefined;
}

/**
 * Runs a command to its end, also when this process gets a signal, and collects its output.
 * @param options.timeoutMs the command is ended after this time; default: no limit
 */
export function run(
  command: string,
  args: readonly string[],
  cwd: string,
  options?: { readonly timeoutMs?: number; readonly env?: Readonly<Record<string, string>> },
): Promise<Outcome>;
