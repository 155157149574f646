/** Runs `work` while holding the lock at `directory`, and releases it however `work` ends. */
export function withLock<T>(directory: string, say: (line: string) => void, work: () => Promise<T>): Promise<T>;
