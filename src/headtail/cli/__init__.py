"""The command line; `main` turns every problem into a sentence and an exit code."""

import sys
import traceback

import typer

from headtail.cli.app import app
from headtail.cli.log import shown_log
from headtail.cli.output import print_json, say, which_rank
from headtail.errors import HeadtailError, one_line
from headtail.garbage import left_behind


def main(arguments: list[str] | None = None) -> int:
    """Runs a command.

    Returns:
        The exit code: 0 done, 1 a defect of ours, 2 something for the user to mend, 130 interrupted.
    """
    if arguments is None:
        with left_behind():
            return main(sys.argv[1:])
    try:
        # Not standalone: typer then hands over its errors instead of drawing a box around them.
        with shown_log("--debug" in arguments):
            return app(arguments, prog_name="headtail", standalone_mode=False) or 0
    except HeadtailError as error:
        return _failed(arguments, error, str(error), 2)
    except typer.TyperException as error:
        # Asking for nothing prints the help, which is all there is to say.
        sentence = " ".join(error.format_message().split())
        return _failed(arguments, error, sentence, error.exit_code) if sentence else error.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        sentence, code = explained(error)
        return _failed(arguments, error, sentence, code)


def explained(error: Exception) -> tuple[str, int]:
    """Returns what to say of an error that nobody wrote a sentence for, and the exit code."""
    # Torch has no type of its own for memory that the host has not.
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for this; use a machine with more, or smaller data or settings.", 2
    reason = one_line(f"{type(error).__name__}: {error}")
    return f"internal error ({reason}); run again with --debug for the traceback", 1


def _failed(arguments: list[str], error: Exception, sentence: str, code: int) -> int:
    if "--debug" in arguments:
        traceback.print_exception(error)
    say(f"error{which_rank()}: {sentence}")
    if "--json" in arguments:
        print_json({"error": sentence})
    return code
