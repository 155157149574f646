/** Runs `work` while holding the lock at `directory`, and releases it when `work` resolves or rejects. */
export function withLock<T>(directory: string, say: (line: string) => void, work: () => Promise<T>): Promise<T>;
