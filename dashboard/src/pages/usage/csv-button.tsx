import { useState } from 'preact/hooks';
import { ApiError, request } from '../../api/client.ts';
import type { QueryValue } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';

interface CsvButtonProps {
  readonly path: string;
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly fileName: string;
}

/** Saves a report as CSV. The key is in a header, so the file is read here and given to the browser. */
export function CsvButton({ path, query, fileName }: CsvButtonProps) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const save = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const file = await (await request(path, { query: { ...query, format: 'csv' } })).blob();
      const link = document.createElement('a');
      link.href = URL.createObjectURL(file);
      link.download = fileName;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button onClick={() => void save()} disabled={isBusy}>
        {isBusy ? 'Saving' : 'Save as CSV'}
      </Button>
      {problem !== undefined && (
        <span role="alert" class="usage-problem">
          {problem}
        </span>
      )}
    </>
  );
}
