import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../../api/client.ts';
import type { QueryValue } from '../../app/router.ts';
import { formatBytes, formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { ErrorPanel } from '../../ui/states.tsx';
import { type ExportFormat, type ExportProgress, exportFile, saveFile } from './export-file.ts';

const titles: Readonly<Record<ExportFormat, string>> = {
  csv: 'CSV, for spreadsheets',
  ndjson: 'NDJSON, one entry a line',
  parquet: 'Parquet, at most 200,000 requests',
};
const formats = Object.entries(titles) as readonly (readonly [ExportFormat, string])[];

interface ExportDialogProps {
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly onClose: () => void;
}

type State =
  | { readonly is: 'idle' }
  | { readonly is: 'reading'; readonly progress: ExportProgress | undefined }
  | { readonly is: 'done'; readonly progress: ExportProgress | undefined }
  | { readonly is: 'failed'; readonly error: ApiError };

/** Every request of the filter as a file, without bodies. */
export function ExportDialog({ query, onClose }: ExportDialogProps) {
  const [format, setFormat] = useState<ExportFormat>('csv');
  const [state, setState] = useState<State>({ is: 'idle' });
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);

  const begin = async () => {
    const leaving = new AbortController();
    running.current = leaving;
    let progress: ExportProgress | undefined;
    setState({ is: 'reading', progress });
    const onProgress = (now: ExportProgress) => {
      progress = now;
      setState({ is: 'reading', progress });
    };
    try {
      const blob = await exportFile(format, query, onProgress, leaving.signal);
      saveFile(blob, `audit-log.${format}`);
      setState({ is: 'done', progress });
    } catch (error) {
      if (leaving.signal.aborted) setState({ is: 'idle' });
      else setState({ is: 'failed', error: asError(error) });
    }
  };

  return (
    <Dialog title="Export" onClose={onClose}>
      <p>All requests of the filter and the time range, without bodies. The export is recorded.</p>
      <SelectField
        label="Format"
        value={format}
        choices={formats.map(([value, title]) => ({ value, title }))}
        onChange={setFormat}
      />
      <div class="audit-export-actions">
        <Button look="main" disabled={state.is === 'reading'} onClick={() => void begin()}>
          Export
        </Button>
        {state.is === 'reading' && <Button onClick={() => running.current?.abort()}>Cancel</Button>}
      </div>
      <div role="status">
        {(state.is === 'reading' || state.is === 'done') && (
          <p>
            {state.is === 'done' ? 'The file is complete: ' : 'Reading: '}
            {progressText(state.progress)}
          </p>
        )}
      </div>
      {state.is === 'reading' && (
        <progress
          aria-label="Exported requests"
          max={state.progress?.totalRows || undefined}
          value={state.progress?.rows || undefined}
        />
      )}
      {state.is === 'failed' && <ErrorPanel error={state.error} />}
    </Dialog>
  );
}

function progressText(progress: ExportProgress | undefined): string {
  if (progress === undefined) return 'no requests yet.';
  const { bytes, rows, totalRows } = progress;
  const read = rows === 0 ? '' : `${formatCount(rows)} of `;
  return `${read}${formatCount(totalRows)} requests, ${formatBytes(bytes)}.`;
}

function asError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('The file ended early. Export again, or choose a shorter time range.', {
    ...{ status: 0, code: 'incomplete' },
  });
}
