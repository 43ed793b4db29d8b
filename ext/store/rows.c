/*
** rows.c: result rows, materialised before anything is written.
**
** A claim that has been stamped must reach its caller: nothing may fail after
** the write.  So the rows are built first, here, complete with the lease they
** are about to get, and xColumn later only copies.
**
** A CqRows is an array of cells, nCol to a row, and a chain of chunks that
** hold the bytes of texts and blobs.  Both are freed at once.
*/
#include "claimq_int.h"

#define CQ_CHUNK_SZ 1000          /* Usual size; larger values get their own */
#define CQ_KEEP_CELL 100          /* claimqRowsReuse() keeps no more cells */

typedef struct CqChunk CqChunk;
struct CqChunk {
  CqChunk *pNext;
  int nUsed, nAlloc;
  char a[1];
};

CQ_PRIV void claimqRowsInit(CqRows *p, int nCol){
  memset(p, 0, sizeof(*p));
  p->nCol = nCol;
}

/*
** Free a chain of chunks.
*/
static void cqChunksFree(CqChunk *pChunk){
  while( pChunk ){
    CqChunk *pNext = pChunk->pNext;
    sqlite3_free(pChunk);
    pChunk = pNext;
  }
}

CQ_PRIV void claimqRowsClear(CqRows *p){
  cqChunksFree(p->pChunk);
  sqlite3_free(p->aCell);
  claimqRowsInit(p, p->nCol);
}

/*
** Empty the rows, for others that have nCol columns, and keep what memory a
** usual claim needs.
*/
CQ_PRIV void claimqRowsReuse(CqRows *p, int nCol){
  CqChunk *pChunk = p->pChunk;
  CqCell *aCell = p->aCell;
  int nCell = p->nAlloc*p->nCol;
  assert( nCol>0 && (nCell==0)==(aCell==0) );
  if( pChunk ){
    cqChunksFree(pChunk->pNext);
    pChunk->pNext = 0;
    pChunk->nUsed = 0;
    if( pChunk->nAlloc!=CQ_CHUNK_SZ ){
      sqlite3_free(pChunk);
      pChunk = 0;
    }
  }
  if( nCell>CQ_KEEP_CELL || nCell<nCol ){
    sqlite3_free(aCell);
    aCell = 0;
    nCell = 0;
  }
  claimqRowsInit(p, nCol);
  p->pChunk = pChunk;
  p->aCell = aCell;
  p->nAlloc = nCell/nCol;
}

/*
** Append a row of NULLs.  The pointer is good until the next row is added;
** 0 if op has an error.
*/
CQ_PRIV CqCell *claimqRowsAdd(CqOp *pOp, CqRows *p){
  CqCell *a;
  int i;
  if( pOp->rc ) return 0;
  if( p->nRow>=p->nAlloc ){
    int nNew = p->nAlloc ? p->nAlloc*2 : 1;
    a = claimqRealloc(pOp, p->aCell, (i64)nNew*p->nCol*(i64)sizeof(CqCell));
    if( a==0 ) return 0;
    p->aCell = a;
    p->nAlloc = nNew;
  }
  a = &p->aCell[(i64)p->nRow*p->nCol];
  for(i=0; i<p->nCol; i++) a[i].eType = SQLITE_NULL;
  p->nRow++;
  return a;
}

CQ_PRIV CqCell *claimqRow(const CqRows *p, int iRow){
  assert( iRow>=0 && iRow<p->nRow );
  return &p->aCell[(i64)iRow*p->nCol];
}

/*
** Room for n bytes that live as long as the rows; 0 if op has an error.
*/
static char *cqRowsBytes(CqOp *pOp, CqRows *p, int n){
  CqChunk *pChunk = p->pChunk;
  if( pOp->rc ) return 0;
  if( pChunk==0 || pChunk->nAlloc-pChunk->nUsed<n ){
    int nAlloc = n>CQ_CHUNK_SZ ? n : CQ_CHUNK_SZ;
    pChunk = claimqRealloc(pOp, 0, (i64)sizeof(CqChunk) + nAlloc);
    if( pChunk==0 ) return 0;
    pChunk->pNext = p->pChunk;
    pChunk->nUsed = 0;
    pChunk->nAlloc = nAlloc;
    p->pChunk = pChunk;
  }
  assert( n>=0 && pChunk->nUsed+n<=pChunk->nAlloc );
  pChunk->nUsed += n;
  return &pChunk->a[pChunk->nUsed - n];
}

/*
** Set a cell to a copy of n bytes, which live as long as the rows, and have a
** zero behind them.  If op has an error or gets one here, the cell stays as it
** is.
*/
static void cqCellBytes(
  CqOp *pOp, CqRows *p, CqCell *pCell, int eType, const void *z, int n
){
  char *zNew = cqRowsBytes(pOp, p, n+1);
  assert( eType==SQLITE_TEXT || eType==SQLITE_BLOB );
  if( zNew==0 ) return;
  if( n>0 ) memcpy(zNew, z, (size_t)n);
  zNew[n] = 0;
  pCell->eType = (u8)eType;
  pCell->u.z = zNew;
  pCell->n = n;
}

CQ_PRIV void claimqCellInt(CqCell *pCell, i64 i){
  pCell->eType = SQLITE_INTEGER;
  pCell->u.i = i;
}

CQ_PRIV void claimqCellText(CqOp *pOp, CqRows *p, CqCell *pCell, CqText t){
  if( t.z==0 ) pCell->eType = SQLITE_NULL;
  else cqCellBytes(pOp, p, pCell, SQLITE_TEXT, t.z, t.n);
}

/*
** Copy a value into a cell, type and bytes as they are; the bytes live as long
** as the rows.  Nothing happens if op has an error; without memory it gets one,
** and the cell is NULL.
*/
CQ_PRIV void claimqCellValue(
  CqOp *pOp, CqRows *p, CqCell *pCell, sqlite3_value *pVal
){
  int eType = sqlite3_value_type(pVal);
  if( pOp->rc ) return;
  if( eType==SQLITE_INTEGER ){
    claimqCellInt(pCell, sqlite3_value_int64(pVal));
  }else if( eType==SQLITE_FLOAT ){
    pCell->eType = SQLITE_FLOAT;
    pCell->u.r = sqlite3_value_double(pVal);
  }else if( eType==SQLITE_TEXT ){
    claimqCellText(pOp, p, pCell, claimqValueText(pOp, pVal));
  }else if( eType==SQLITE_BLOB ){
    const void *z = sqlite3_value_blob(pVal);
    cqCellBytes(pOp, p, pCell, eType, z, sqlite3_value_bytes(pVal));
  }else{
    pCell->eType = SQLITE_NULL;
  }
}

CQ_PRIV void claimqCellColumn(
  CqOp *pOp, CqRows *p, CqCell *pCell, const CqStmt *pStmt, int iCol
){
  claimqCellValue(pOp, p, pCell, claimqColValue(pStmt, iCol));
}

/*
** Copy the first n columns of the row that pStmt stands on into a[0..n-1], but
** not those that nobody will read.  Nothing happens if op has an error.
*/
CQ_PRIV void claimqCellColumns(
  CqOp *pOp, CqRows *p, CqCell *a, const CqStmt *pStmt, int n
){
  u32 mSkip;
  int i;
  if( pOp->rc ) return;
  assert( a>=p->aCell && a+n<=&p->aCell[(i64)p->nRow*p->nCol] );
  mSkip = p->mSkip >> (a - p->aCell)%p->nCol;      /* a[] may begin inside */
  for(i=0; i<n; i++, mSkip>>=1){
    if( (mSkip & 1)==0 ) claimqCellColumn(pOp, p, &a[i], pStmt, i);
  }
}

/*
** Copies: the value may outlive the cursor (an aggregate keeps it).  The
** length -1 says that a text ends with a zero, if it has no other: else
** sqlite3_column_text() would copy it once more.
*/
CQ_PRIV void claimqCellResult(const CqCell *pCell, sqlite3_context *pCtx){
  int n;
  switch( pCell->eType ){
    case SQLITE_INTEGER:
      sqlite3_result_int64(pCtx, pCell->u.i);
      break;
    case SQLITE_FLOAT:
      sqlite3_result_double(pCtx, pCell->u.r);
      break;
    case SQLITE_TEXT:
      n = strlen(pCell->u.z)==(size_t)pCell->n ? -1 : pCell->n;
      sqlite3_result_text(pCtx, pCell->u.z, n, SQLITE_TRANSIENT);
      break;
    case SQLITE_BLOB:
      sqlite3_result_blob64(pCtx, pCell->u.z, (sqlite3_uint64)pCell->n,
                            SQLITE_TRANSIENT);
      break;
    default:
      sqlite3_result_null(pCtx);
  }
}

/*
** The text of a cell, which lives as long as the rows; z==0 unless it is TEXT.
*/
CQ_PRIV CqText claimqCellGetText(const CqCell *pCell){
  CqText t = {0, 0};
  if( pCell->eType==SQLITE_TEXT ){
    t.z = pCell->u.z;
    t.n = pCell->n;
  }
  return t;
}
