-- Three databases, three roles; each role reaches its own database alone. Run once, by a superuser:
--   psql --set ON_ERROR_STOP=1 --file databases.sql
-- with PREFECT_DB_PASSWORD, MLFLOW_DB_PASSWORD and LEDGER_DB_PASSWORD in the environment.
\getenv prefect PREFECT_DB_PASSWORD
\getenv mlflow MLFLOW_DB_PASSWORD
\getenv ledger LEDGER_DB_PASSWORD

CREATE ROLE prefect LOGIN PASSWORD :'prefect';
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow';
CREATE ROLE ledger LOGIN PASSWORD :'ledger';

CREATE DATABASE prefect OWNER prefect;
CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE ledger OWNER ledger;

REVOKE CONNECT, TEMPORARY ON DATABASE prefect, mlflow, ledger, postgres, template1 FROM PUBLIC;
