import { ApiError, getAnswer } from './client.ts';

/** The revision of an object's newest change, also of one that was removed; `none` when it was never changed. */
export async function lastRevision(subject: string): Promise<string> {
  try {
    const { entries } = await getAnswer('/admin/history', { query: { subject, limit: 1 } });
    return entries[0]?.revision ?? 'none';
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return 'none';
    throw error;
  }
}
